"""A disguised run: the agent gets what the policy saw, at another scale; the record has the true returns; it resumes
and verifies under its key alone."""

from __future__ import annotations

import json
import math
import os
import re

import pytest

from conftest import policy_source
from evopolicygym.tasks.conditions import REWARD_SCALES
from server_helpers import SMALL, TOY, command

KEYS = [f"{number:064x}" for number in (1, 2)]
DISGUISED = (*SMALL, "--variant", "disguised", "--budget", "5")
# The toy pays the number of the action, and the disguise decides which that is.
POLICY = policy_source("return 0", top="print('seen')")


def judged(root):
    lines = [json.loads(line) for line in (root / "ledger.jsonl").read_text().splitlines()]
    return [line["data"] for line in lines if line["kind"] == "judged"]


def test_an_agent_gets_scaled_returns_and_the_record_has_the_true_ones(serve):
    server = serve(*DISGUISED, EVOPOLICYGYM_SEAL_KEY=KEYS[0])
    server.policy(POLICY)
    info = server.call("GET", "/info")[1]["env_meta"]
    assert (info["env"], info["task"]) == ("task", "task") and info["max_episode_steps"] in (2000, 5000, 10000)
    assert info["action_space"]["n"] > 3
    summary = server.call("POST", "/submit", {"env_instances": [0, 1]})[1]["summary"]
    server.process.kill()
    server.process.wait()

    resumed = server.start(EVOPOLICYGYM_SEAL_KEY=KEYS[0])
    again = resumed.call("POST", "/submit", {"env_instances": [0, 1]})[1]["summary"]
    server.policy(policy_source("return 1 / 0"))
    failed = resumed.call("POST", "/submit", {"env_instances": [0]})[1]["summary"]
    resumed.close()
    match = re.search(r"min\(return so far,\s+(\S+)\)", (server.root / "workspace" / "AGENTS.md").read_text())
    assert match and failed["returns"] == [float(match[1])]
    assert judged(server.root)[2]["tally"]["returns"] == [-1e6]
    assert again["returns"] == summary["returns"]
    true = judged(server.root)[0]["tally"]["returns"]
    scale = min(REWARD_SCALES, key=lambda scale: abs(summary["returns"][0] - scale * true[0]))
    assert summary["returns"] == pytest.approx([value * scale for value in true], rel=1e-6)
    assert summary["mean_return"] == pytest.approx(scale * math.fsum(true) / 2, rel=1e-6)

    episode = server.root / "feedback" / "submit_001" / "episodes" / "ep_000"
    lines = [json.loads(line) for line in (episode / "trajectory.jsonl").read_text().splitlines()]
    assert sum(line["reward"] for line in lines[:-1]) == pytest.approx(summary["returns"][0], rel=1e-6)
    assert {line["action"] for line in lines[:-1]} == {0}
    shown = info["obs_space"].get("spaces", {"": info["obs_space"]})
    first = lines[0]["obs"] if isinstance(lines[0]["obs"], dict) else {"": lines[0]["obs"]}
    assert {name: len(entries) for name, entries in first.items()} == {
        name: part["shape"][0] for name, part in shown.items()
    }

    other = command("finish", server.root, env=environment(KEYS[1]))
    assert other.returncode == 2 and "Traceback" not in other.stderr, other.stderr
    assert command("finish", server.root, env=environment(KEYS[0])).returncode == 0
    record = json.loads((server.root / "run.json").read_text())
    assert record["options"]["variant"] == "disguised"
    assert record["submissions"][0]["train"]["returns"] == true
    assert record["outcome"]["validation_mean"] < 40.0  # ten steps that pay up to three each
    assert command("verify", server.root, env=environment(KEYS[0])).returncode == 0
    other = command("verify", server.root, env=environment(KEYS[1]))
    assert other.returncode != 0 and "its disguised task is not the one that the key here makes" in other.stdout


def environment(key):
    return os.environ | {"EVOPOLICYGYM_SEAL_KEY": key}


def test_the_same_key_makes_the_same_task_on_other_cases(tmp_path):
    def shown(*options):
        done = command("task", "show", TOY, "--json", *options, env=environment(KEYS[0]))
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)["obs_space"]

    disguised = shown("--variant", "disguised")
    assert disguised == shown("--variant", "disguised", "--text", "blind")
    assert disguised != shown("--text", "blind")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--feedback", "video"), "a video would show"),
        (("--text", "brief"), "a disguised task has no text brief"),
        (("--seal-key", "missing.key"), "cannot read the sealing key"),
    ],
)
def test_what_would_lift_the_disguise_is_refused(tmp_path, options, message):
    done = command("serve", TOY, "--run", tmp_path / "run", *DISGUISED, *options)
    assert done.returncode == 2
    assert message in " ".join(done.stderr.split())
    assert not (tmp_path / "run").exists()
