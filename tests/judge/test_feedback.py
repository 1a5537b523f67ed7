"""What feedback contains: tracebacks, output, returns, trajectories and videos, readable and within bounds."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from feedback_helpers import episode, read_strict_json, submit

from conftest import policy_source
from server_helpers import SMALL, Server, command

MIB = 1 << 20


@pytest.fixture(scope="module")
def server(serve_for_all: Callable[..., Server]) -> Server:
    return serve_for_all("--budget", "1000", *SMALL)


def test_tracebacks_name_the_files_and_lines_of_the_agent(server):
    helper = "def deep(obs):\n    values = [1, 2]\n    return values[int(obs[0]) + 7]\n"
    summary = submit(server, policy_source("from helper import deep\nreturn deep(obs)"), helper=helper)
    for text in ((episode(server, summary) / "error.txt").read_text(), _errors(server, summary)):
        assert 'File "policy.py", line' in text and "return deep(obs)" in text
        assert 'File "helper.py", line 3, in deep' in text and "IndexError: list index out of range" in text
        assert "evopolicygym" not in text and str(server.root) not in text and "checkpoints" not in text
    assert summary["errors"][0] == {
        "episode": 0, "env_instance": 0, "kind": "act_error", "message": "IndexError: list index out of range",
    }  # fmt: skip


def _errors(server: Server, summary: dict[str, Any]) -> str:
    return (server.workspace / summary["feedback"] / "errors.txt").read_text()


@pytest.mark.parametrize(
    "source", ["raise ValueError('at import')\n", "import helper\n", "def f(:\n", policy_source(init="1/0")]
)
def test_tracebacks_of_a_policy_that_does_not_load(server, source):
    summary = submit(server, source, helper="import os\nos.nothing\n")
    text = _errors(server, summary)
    assert 'policy.py", line' in text and str(server.root) not in text and "evopolicygym" not in text


LOUD = """
import os, sys
print("x" * 10_000_000)
print("\\udc80 lone \\ud800 \\x1b[31m \\x00 end", file=sys.stderr)
os.write(2, b"\\xff\\xfe\\x00 raw \\x9b2J" * 10)
if obs[0] == 3:
    raise ValueError("\\x1b]0;title\\x07 \\ud800 " + "y" * 10_000_000 + "\\nthe end")
return 1
"""


def test_output_and_errors_of_a_policy_are_bounded_and_readable(server):
    summary = submit(server, policy_source(LOUD), cases=(0, 1))
    folder = server.workspace / summary["feedback"]
    assert read_strict_json(folder / "summary.json") == summary
    assert summary["errors"][0]["kind"] == "act_error" and len(summary["errors"][0]["message"]) <= 400
    for path in folder.rglob("*"):
        if path.suffix == ".txt":
            path.read_text("utf-8", "strict")
    for number in (0, 1):
        assert (episode(server, summary, number) / "stdout.txt").stat().st_size <= 64 << 10
        assert (episode(server, summary, number) / "stderr.txt").stat().st_size <= 3 * (64 << 10)
        assert "lone" in (episode(server, summary, number) / "stderr.txt").read_text()
        assert (episode(server, summary, number) / "error.txt").stat().st_size < 64 << 10
        assert "the end" in (episode(server, summary, number) / "error.txt").read_text()
    assert sum(path.stat().st_size for path in folder.rglob("*")) < MIB


def test_the_mean_of_huge_returns_does_not_overflow(serve):
    """The sum of two is beyond the range of floats, their mean is not."""
    server = serve("--budget", "8", *SMALL, task="toys:Generous-v0")
    summary = submit(server, policy_source("return [1.7e308]"), cases=(0, 1))
    assert summary["mean_return"] == 1.7e308 and summary["std_return"] == 0.0
    mixed = submit(server, policy_source("return [1.7e308 if obs[1] < 0.5 else -1.7e308]"), cases=range(6))
    assert set(mixed["returns"]) == {1.7e308, -1.7e308} and abs(mixed["mean_return"]) <= 1.7e308
    assert server.finish()["outcome"]["kind"] == "scored"


def test_trajectories_of_every_space_can_be_read(serve):
    action = "return {'gear': 1, 'wheel': [0.5, -0.5], 'switches': [1, 0, 1], 'levels': [7, 9], 'pair': (2, [4, 5])}"
    server = serve(task="toys:Everything-v0")
    summary = submit(server, policy_source(action))
    assert server.call("GET", "/info")[1]["env_meta"]["obs_storage"] == {"obs_image": "episode.npz"}
    folder = episode(server, summary)
    steps = [json.loads(line) for line in (folder / "trajectory.jsonl").read_text().splitlines()]
    assert [step["t"] for step in steps] == list(range(11)) and "action" not in steps[-1]
    assert steps[3]["obs"]["word"] == "step ééé" and steps[3]["obs"]["pair"] == [1, [[0.5, 0.5], [0.5, 0.5]]]
    assert (
        steps[3]["action"]["pair"] == [2, [4, 5]]
        and sum(step["reward"] for step in steps[:-1]) == summary["returns"][0]
    )
    with np.load(folder / "episode.npz", allow_pickle=False) as arrays:
        assert arrays["obs_image"].shape == (11, 12, 9, 3) and arrays["obs_image"].dtype == np.uint8
        for step in steps:
            assert (arrays[step["obs"]["image"]["npz"]][step["obs"]["image"]["row"]] == step["t"]).all()


def test_a_recording_that_is_too_large_is_cut_and_reported(serve):
    """32 MiB of trajectory and of video for each episode; what is there can be read, and the episode goes on."""
    import av

    server = serve("--video", "first", *SMALL, task="toys:Vast-v0")
    summary = submit(server, cases=(0, 1))
    assert summary["lengths"] == [160, 160]
    left_out = [(recording["episode"], recording["what"].split()[1]) for recording in summary["left_out"]]
    assert left_out == [(0, "trajectory"), (0, "video"), (1, "trajectory")]
    for number in (0, 1):
        folder = episode(server, summary, number)
        steps = [json.loads(line) for line in (folder / "trajectory.jsonl").read_text().splitlines()]
        with np.load(folder / "episode.npz", allow_pickle=False) as arrays:
            assert arrays["obs_image"].shape == (len(steps), MIB) and 30 <= len(steps) <= 33
        assert re.search(rf"before step {len(steps)}:", summary["left_out"][2 * number]["what"])
        assert not list(folder.glob(".*"))
        sizes = {path.name: path.stat().st_size for path in folder.iterdir()}
        assert sizes["trajectory.jsonl"] + sizes["episode.npz"] < 34 * MIB
        assert "video.mp4" not in sizes
    video_file = server.root / summary["feedback"] / "episodes" / "ep_000" / "video.mp4"
    assert video_file.stat().st_size < 33 * MIB
    with av.open(str(video_file)) as video:
        assert 10 < sum(1 for _ in video.decode(video=0)) < 160


@pytest.mark.parametrize(
    ("options", "recorded", "shown"), [(("--video", "first"), 1, 0), (("--feedback", "video"), 3, 3)]
)
def test_videos_are_shown_at_their_level_alone(serve, options, recorded, shown):
    """``--video`` records videos for people: the judge's copy has them, the agent's does not. Once the run is over,
    each is stored once."""
    server = serve(*options, *SMALL)
    submit(server, cases=(0, 1, 2))

    def videos():
        return [len(list((root / "feedback").rglob("video.mp4"))) for root in (server.root, server.workspace)]

    assert videos() == [recorded, shown]
    assert command("finish", server.root).returncode == 0
    assert videos() == [recorded, 0]


def test_control_characters_of_an_agent_are_escaped(serve):
    """They occur in file names, messages and output of a policy, as finish, score and verify print them."""
    hostile = "\x1b[2J\x1b]0;owned\x07"
    server = serve()
    server.policy(policy_source("raise ValueError('\\x1b[2J\\x1b]0;owned\\x07')", top="print('\\x1b[2J')"))
    (server.workspace / "system" / "plain.txt").write_text(hostile)
    assert server.submit([0])[0] == 200
    (server.workspace / "system" / hostile).write_text("x")
    code, answer = server.submit([0])
    assert (code, answer["status"]) == (400, "snapshot_invalid") and "\x1b" not in answer["message"]
    (server.workspace / "system" / hostile).unlink()
    shown = [
        command("finish", server.root),
        command("score", server.root, "--all-checkpoints"),
        command("verify", server.root),
    ]
    (checkpoint,) = (server.root / "checkpoints").iterdir()
    os.chmod(checkpoint, 0o755)
    (checkpoint / hostile).write_text("x")
    shown.append(command("verify", server.root))
    assert [done.returncode for done in shown] == [0, 0, 0, 1], shown
    assert server.process.stdout and server.process.stderr
    printed = (
        "".join(done.stdout + done.stderr for done in shown)
        + server.process.stdout.read()
        + server.process.stderr.read()
    )
    assert printed and not set("\x1b\x07\x00\x9b") & set(printed)
