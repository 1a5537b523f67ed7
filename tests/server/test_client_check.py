"""The trial of a policy in the workspace (`submit.py --check`): actions, CPU time, what is printed, which episode."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from client_helpers import fresh

from conftest import policy_source
from evopolicygym.server.client_check import WrongAction, check_action, check_policy, duration, find_recorded
from server_helpers import SMALL, Server

BOX = {"type": "Box", "shape": [1], "dtype": "float32", "low": -1.0, "high": 1.0}
DISCRETE = {"type": "Discrete", "n": 3, "start": 1, "dtype": "int64"}
MULTI = {"type": "MultiDiscrete", "shape": [2], "dtype": "int64", "nvec": [2, 3], "start": [0, 0]}
BINARY = {"type": "MultiBinary", "shape": [2], "dtype": "int8", "n": 2}
DICT = {"type": "Dict", "spaces": {"arm": BOX, "hand": DISCRETE}}
PAIR = {"type": "Tuple", "spaces": [BOX, DISCRETE]}
LIMITS = {"init_cpu_s": 10.0, "act_cpu_s": 2.0, "episode_cpu_s": 60.0}


def info(action_space: dict[str, Any], **limits: float) -> dict[str, Any]:
    meta = {"env": "e", "task": "t", "env_version": "1", "max_episode_steps": 10}
    return {
        "env_meta": meta | {"obs_space": BOX, "action_space": action_space},
        "resource_limits": LIMITS | limits,
    }


def write_policy(folder: Path, source: str) -> str:
    (folder / "system").mkdir()
    (folder / "system/policy.py").write_text(source)
    return str(folder)


def record(folder: Path, submission: int, episode: int, steps: int, **ends: bool) -> None:
    target = folder / f"feedback/submit_{submission:03}/episodes/ep_{episode:03}"
    target.mkdir(parents=True)
    np.savez(target / "episode.npz", obs=np.zeros((steps + 1, 1), np.float32), reward=np.zeros(steps), **ends)


@pytest.mark.parametrize(
    ("space", "action"),
    [
        (BOX, "left"),
        (BOX, 0.5),
        (BOX, [float("nan")]),
        (BOX, None),
        (BOX, [[0.0], [0.0, 1.0]]),
        (DISCRETE, 0),
        (DISCRETE, 4),
        (DISCRETE, 1.0),
        (DISCRETE, [1, 2]),
        (MULTI, [1, 3]),
        (MULTI, [0.5, 1]),
        (BINARY, [0, 2]),
        (DICT, {"arm": [0.0]}),
        (DICT, {"arm": [0.0], "hand": 0}),
        (DICT, 1),
        (PAIR, ([0.0],)),
    ],
)
def test_a_wrong_action_is_found(space, action):
    with pytest.raises(WrongAction, match=r"^the action"):
        check_action(action, space)


@pytest.mark.parametrize(
    ("space", "action"),
    [
        (BOX, [7]),
        (BOX, np.zeros(1)),
        (DISCRETE, np.int64(3)),
        (DISCRETE, np.array([1])),
        (MULTI, [1.0, 2.0]),
        (BINARY, [True, False]),
        (DICT, {"arm": [0.0], "hand": 1}),
        (PAIR, ([0.0], 1)),
    ],
)
def test_actions_that_a_judge_takes_pass(space, action):
    check_action(action, space)


def test_cpu_time_counts_with_one_thread(tmp_path, capsys, monkeypatch):
    """Sleep takes no CPU time; the numeric libraries are told to use one thread before they are imported."""
    monkeypatch.setenv("OPENBLAS_NUM_THREADS", "2")
    init = "import os, time; self.sleep = time.sleep; self.threads = os.environ['OPENBLAS_NUM_THREADS']"
    folder = write_policy(tmp_path, policy_source(init=init, act="self.sleep(0.3); return int(self.threads)"))
    assert check_policy(folder, info(DISCRETE, act_cpu_s=0.25)) == ""
    assert "with 1 first" in capsys.readouterr().out


def test_an_act_beyond_the_limit_is_a_problem(tmp_path):
    folder = write_policy(tmp_path, policy_source(act="sum(range(1000000)); return 1"))
    assert "act_cpu_s allows 0.0001 s" in check_policy(folder, info(DISCRETE, act_cpu_s=0.0001))


def test_the_end_of_what_a_policy_prints_is_shown(tmp_path, capfd):
    folder = write_policy(tmp_path, policy_source(act="[print('line', i) for i in range(2500)]; return 1"))
    assert check_policy(folder, info(DISCRETE)) == ""
    lines = capfd.readouterr().out.splitlines()
    assert len(lines) < 30 and "  line 2499" in lines and "  line 2479" not in lines


def test_a_policy_that_ends_its_process_did_not_pass(tmp_path):
    folder = write_policy(tmp_path, policy_source(act="import os; os._exit(0)"))
    assert "ended its process" in check_policy(folder, info(DISCRETE))


def test_a_long_first_episode_of_a_new_submission_is_replayed(tmp_path):
    for submission, episode, steps in ((1, 0, 90), (2, 1, 100), (2, 0, 80), (3, 0, 3)):
        record(tmp_path, submission, episode, steps)
    names = ["/".join(Path(path).parts[-4:-1:2]) for path in find_recorded(str(tmp_path))]
    assert names == ["submit_002/ep_000", "submit_001/ep_000", "submit_003/ep_000"]


@pytest.mark.parametrize(("ends", "answered"), [({"truncated": True}, 4), ({"terminated": True}, 4), ({}, 5)])
def test_the_observation_that_ended_an_episode_is_not_answered(tmp_path, capsys, ends, answered):
    """A policy that counts down to the horizon would fail on it. A failed episode ends with what a policy failed on."""
    folder = write_policy(tmp_path, policy_source("return [0.0]"))
    record(tmp_path, 1, 0, 4, **ends)
    assert check_policy(folder, info(BOX)) == ""
    assert f"{answered} act() took" in capsys.readouterr().out


def test_durations_are_readable():
    assert [duration(seconds) for seconds in (0.0036, 0.9999, 3.7)] == ["3.6 ms", "1 s", "3.7 s"]


@pytest.fixture(scope="module")
def shared_server(serve_for_all: Callable[..., Server]) -> Server:
    return serve_for_all("--budget", "1000", *SMALL)


@pytest.fixture
def server(shared_server: Server) -> Iterator[Server]:
    yield from fresh(shared_server)


@pytest.mark.parametrize(
    ("source", "good"),
    [
        (policy_source(), True),
        (policy_source(init="assert obs_space['high'] in (float('inf'), [float('inf')] * 2), obs_space"), True),
        (policy_source(init="raise ValueError('no')"), False),
        (policy_source(reset="raise SystemExit(0)"), False),
        (policy_source().replace("def act", "def react"), False),
        (policy_source(act="return int(obs[0]) % 3 + obs.shape[0] - 2"), True),
        (policy_source(act="return obs[7]"), False),
        (policy_source(act="return 'left'"), False),
        ("def broken(:\n", False),
    ],
)
def test_check_reports_whether_the_policy_loads(server, source, good):
    remaining = server.remaining()
    server.policy(source)
    done = server.client("--check")
    assert (done.returncode == 0) == good and done.returncode in (0, 1), done.stderr
    assert "nothing was submitted" in (done.stdout if good else done.stderr)
    assert server.remaining() == remaining and not (server.workspace / "system/__pycache__").exists()


def test_check_uses_recorded_observations(server):
    """The luck of the first case, which is no zero."""
    server.policy(policy_source(act="print('asked', obs[1] > 0); return 1"))
    assert server.client("0").returncode == 0
    done = server.client("--check")
    assert "recorded observations of " in done.stdout and done.stdout.count("asked True") == 10
    assert "10 act() took" in done.stdout and "of CPU time each, at most" in done.stdout
    assert "an episode that is not its own" in done.stdout


def test_check_replays_what_a_policy_failed_on(server):
    act = "self.asked += 1; assert self.asked < 4; return 1"
    server.policy(policy_source(init="self.asked = 0", act=act))
    assert "1 of 1 episode FAILED" in server.client("0").stdout
    done = server.client("--check")
    assert done.returncode == 1 and "fails on the recorded observations of submit_001/episodes/ep_000" in done.stderr


@pytest.mark.parametrize(("level", "seen"), [("trajectory", "first observation of train case 0"), ("score", "zeros")])
def test_check_before_any_feedback(serve, level, seen):
    """A real observation, unless recordings are not shown at all. Nothing is charged for it."""
    server = serve("--feedback", level, *SMALL)
    server.policy(policy_source(act="print('asked', obs[1]); return 1"))
    done = server.client("--check")
    assert seen in done.stdout and server.remaining() == 128
    luck = float(re.findall(r"asked (\S+)", done.stdout)[0])
    server.policy(policy_source(act="print(repr(float(obs[1]))); return 1"))
    server.submit("0")
    printed = (server.root / "feedback/submit_001/episodes/ep_000/stdout.txt").read_text().splitlines()[0]
    assert luck == (float(printed) if level == "trajectory" else 0.0)
    assert len(list((server.root / "checkpoints").iterdir())) == 1


def test_check_finds_large_arrays_in_all_that_was_recorded(serve):
    server = serve(task="toys:Nested-v0")
    server.policy(policy_source(act="return 1 if obs['deep'].popitem()[1][1].tolist() == [0.5] * 300 else 0"))
    assert server.client("0").returncode == 0
    assert "recorded observations of submit_001/episodes/ep_000 with 1 first" in server.client("--check").stdout
