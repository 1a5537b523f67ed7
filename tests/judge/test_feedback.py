"""Feedback: the agent's copy can be tampered with in every way without steering a write of the judge; what a policy
says is bounded, readable and named as its author knows it."""

from __future__ import annotations

import json
import os
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from conftest import policy_source
from evopolicygym.judge import feedback as judge_feedback
from process_helpers import assert_killed_in, kill_self
from server_helpers import AS_USER, SMALL, Server, command

MIB = 1 << 20


@pytest.fixture(scope="module")
def server(serve_for_all: Callable[..., Server]) -> Server:
    return serve_for_all("--budget", "1000", *SMALL)


@pytest.fixture
def victim(tmp_path: Path) -> Path:
    """A folder outside of the workspace that nobody may write to."""
    folder = tmp_path / "victim"
    folder.mkdir()
    (folder / "file").write_text("this must survive")
    return folder


def untouched(victim: Path) -> bool:
    return [path.name for path in victim.iterdir()] == ["file"] and (victim / "file").read_text() == "this must survive"


def submit(server: Server, source: str | None = None, cases: Any = (0,), **files: str) -> dict[str, Any]:
    """Polled for, as patiently as a busy machine may need."""
    server.policy(source, **files)
    code, answer = server.submit(list(cases), wait=False)
    while answer["status"] == "running":
        time.sleep(0.02)
        code, answer = server.call("GET", f"/submissions/{answer['submit_id']}")
    assert code in (200, 202), answer
    summary: dict[str, Any] = answer["summary"]
    return summary


def episode(server: Server, summary: dict[str, Any], number: int = 0) -> Path:
    return server.workspace / summary["feedback"] / "episodes" / f"ep_{number:03}"


def strict(path: Path) -> Any:
    def refuse(constant: str) -> None:
        raise AssertionError(f"{constant} in {path}")

    return json.loads(path.read_bytes().decode("utf-8", "strict"), parse_constant=refuse)


def clear(path: Path) -> None:
    """As an agent would: it owns all of it."""
    if path.is_symlink() or not path.is_dir():
        path.unlink(missing_ok=True)
        return
    for parent, _, _ in os.walk(path):
        os.chmod(parent, 0o755)
    shutil.rmtree(path)


@pytest.mark.parametrize("kind", ["link", "dangling", "file", "fifo", "link to itself", "read-only", "missing"])
def test_another_thing_in_the_place_of_the_feedback_folder(server, victim, kind):
    feedback = server.workspace / "feedback"
    clear(feedback)
    if kind == "link":
        feedback.symlink_to(victim)
    elif kind == "dangling":
        feedback.symlink_to(victim / "nowhere")
    elif kind == "file":
        feedback.write_text("no")
    elif kind == "fifo":
        os.mkfifo(feedback)
    elif kind == "link to itself":
        feedback.symlink_to("feedback")
    elif kind == "read-only":
        feedback.mkdir(0o500)
    summary = submit(server)
    assert untouched(victim)
    assert strict(server.workspace / summary["feedback"] / "summary.json") == summary
    assert feedback.is_dir() and not feedback.is_symlink()


@pytest.mark.parametrize("kind", ["link", "folder", "file"])
def test_a_planted_name(server, victim, kind):
    """What is there is left alone; the judge's own copy is where it belongs."""
    number = server.call("GET", "/info")[1]["state"]["n_submits"] + 1
    planted = server.workspace / "feedback" / f"submit_{number:03}"
    planted.parent.mkdir(exist_ok=True)
    if kind == "link":
        planted.symlink_to(victim)
    elif kind == "folder":
        planted.mkdir()
        (planted / "mine").touch()
    else:
        planted.write_text("mine")
    summary = submit(server)
    assert untouched(victim)
    assert strict(server.root / summary["feedback"] / "summary.json") == summary
    assert planted.is_symlink() == (kind == "link") and planted.is_file() == (kind == "file")
    assert submit(server)["status"] == "ok"


@pytest.mark.parametrize("kind", ["link", "file", "fifo", "missing"])
def test_another_thing_in_the_place_of_the_system_folder(server, victim, kind):
    left, system = server.remaining(), server.workspace / "system"
    clear(system)
    if kind == "link":
        system.symlink_to(victim)
    elif kind == "file":
        system.write_text("no")
    elif kind == "fifo":
        os.mkfifo(system)
    code, answer = server.submit([0])
    assert (code, answer["status"]) == (400, "snapshot_invalid") and str(server.root) not in answer["message"]
    clear(system)
    assert server.remaining() == left and untouched(victim)


def test_a_folder_that_changes_while_feedback_is_delivered(server, victim):
    """Thousands of swaps between a folder and a link during deliveries: not one write goes through the link. However
    few of them a busy machine leaves room for in one."""
    feedback, over, swaps, deliveries = server.workspace / "feedback", threading.Event(), 0, 0
    clear(feedback)
    feedback.mkdir()

    def swap() -> None:
        nonlocal swaps
        spare, link = server.workspace / "spare", server.workspace / "link"
        while not over.is_set():
            try:
                link.symlink_to(victim)
                os.rename(feedback, spare)
                os.rename(link, feedback)
                os.rename(feedback, link)
                os.rename(spare, feedback)
                link.unlink()
            except OSError:  # the judge moved it aside: begin anew
                for path in (link, spare):
                    clear(path)
                if not feedback.is_dir() or feedback.is_symlink():
                    clear(feedback)
                    feedback.mkdir(exist_ok=True)
            swaps += 1

    agent = threading.Thread(target=swap)
    agent.start()
    try:
        while deliveries < 12 or swaps <= 1000:
            assert submit(server)["status"] == "ok"
            assert untouched(victim) and agent.is_alive()
            deliveries += 1
    finally:
        over.set()
        agent.join()
    assert untouched(victim)
    for path in server.workspace.glob("feedback*"):
        clear(path)
    assert submit(server)["status"] == "ok" and server.process.poll() is None


def test_an_agent_that_builds_in_what_is_being_delivered(tmp_path, monkeypatch):
    """Folders in folders, deeper than Python counts, and a name that is needed: it gets no feedback, no more."""
    source, feedback = tmp_path / "submit_001", tmp_path / "workspace" / "feedback"
    feedback.mkdir(parents=True)
    (source / "episodes" / "ep_000").mkdir(parents=True)
    (source / "summary.json").write_text("{}")
    copy_file = judge_feedback._copy_file

    def build(path: str, name: str, target: int) -> None:
        (inner,) = feedback.glob(".submit_001-*")
        (inner / name).write_text("mine")
        descriptor = os.open(inner, os.O_RDONLY)
        for _ in range(2 * sys.getrecursionlimit()):
            os.mkdir("deeper", dir_fd=descriptor)
            outer, descriptor = descriptor, os.open("deeper", os.O_RDONLY, dir_fd=descriptor)
            os.close(outer)
        os.close(descriptor)
        copy_file(path, name, target)

    monkeypatch.setattr(judge_feedback, "_copy_file", build)
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (limits[1], limits[1]))  # or it runs out of these first
    try:
        with pytest.raises(judge_feedback.DeliveryFailed):
            judge_feedback.copy_to_workspace(source, feedback.parent)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
        subprocess.run(["rm", "-r", feedback], check=True)  # Python could not


@pytest.mark.skipif(os.getuid() != 0, reason="root may write where others may not, so it becomes somebody else")
def test_feedback_that_was_delivered_in_part_is_taken_back():
    """Its folders are closed already."""
    with tempfile.TemporaryDirectory() as name:
        source, feedback = Path(name) / "submit_001", Path(name) / "workspace" / "feedback"
        (source / "episodes" / "ep_000").mkdir(parents=True)
        (source / "episodes" / "ep_000" / "trajectory.jsonl").write_text("{}")
        (source / "summary.json").symlink_to("nowhere")  # cannot be copied, and comes last
        feedback.mkdir(parents=True)
        for path in (Path(name), *Path(name).rglob("*")):
            os.chown(path, 65534, 65534, follow_symlinks=False)
        script = f"""
from pathlib import Path
from evopolicygym.judge import feedback as delivery
try:
    delivery.copy_to_workspace(Path({str(source)!r}), Path({str(feedback.parent)!r}))
except delivery.DeliveryFailed:
    print("undeliverable")
"""
        told = subprocess.run([sys.executable, AS_USER, sys.executable, "-c", script], capture_output=True, text=True)
        assert told.stdout == "undeliverable\n", told.stderr
        assert not list(feedback.iterdir())


def test_tampering_leaves_the_judges_copy_alone(serve, victim):
    """Feedback altered and deleted, door.json and system replaced; then a restart, the outcome, and verification."""
    server = serve()
    first, second = submit(server), submit(server, policy_source("return 2"))
    altered = server.workspace / first["feedback"] / "summary.json"
    os.chmod(altered.parent, 0o755)
    os.chmod(altered, 0o644)
    altered.write_text('{"status": "ok", "mean_return": 1e9}')
    clear(server.workspace / second["feedback"])
    door = server.workspace / "door.json"
    for replacement in (
        lambda: door.symlink_to(victim / "file"),
        lambda: door.mkdir(),
        lambda: (door.mkdir(), (door / "x").touch()),
    ):
        server.kill()
        clear(door)
        replacement()
        server.start()
        assert json.loads(door.read_text()) == {"api": server.api} and untouched(victim)
    assert strict(server.workspace / second["feedback"] / "summary.json") == second  # delivered again
    assert server.call("GET", "/submissions/submit_001")[1]["summary"] == first
    record = server.finish()
    assert record["outcome"]["submission"] == 2
    verified = command("verify", server.root)
    assert verified.returncode == 0, verified.stdout
    assert strict(server.root / first["feedback"] / "summary.json") == first


@pytest.mark.skipif(os.geteuid() != 0, reason="becomes another user, which takes root")
def test_a_workspace_that_nobody_can_enter():
    """To a judge that is not root: refused for free, delivered to nobody, and the server lives and starts again."""
    with tempfile.TemporaryDirectory() as folder:  # pytest's own are closed to others
        os.chmod(folder, 0o777)
        shut_out(Server(Path(folder) / "run", as_user=True))


def shut_out(server: Server) -> None:
    try:
        assert submit(server)["status"] == "ok"
        os.chmod(server.workspace, 0)
        code, answer = server.submit([0])
        assert (code, answer["status"], server.remaining()) == (400, "snapshot_invalid", 127)
        server.kill()
        server.start()
        assert server.remaining() == 127
        os.chmod(server.workspace, 0o755)
        assert server.submit([0])[0] == 200
    finally:
        server.close()


def test_tracebacks_are_as_the_agent_wrote_the_code(server):
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


def test_what_a_policy_says_is_bounded_and_readable(server):
    summary = submit(server, policy_source(LOUD), cases=(0, 1))
    folder = server.workspace / summary["feedback"]
    assert strict(folder / "summary.json") == summary
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


def test_returns_beyond_all_floats_in_sum(serve):
    """Two of them have no sum that a float can hold, but they have a mean."""
    server = serve("--budget", "8", *SMALL, task="toys:Generous-v0")
    summary = submit(server, policy_source("return [1.7e308]"), cases=(0, 1))
    assert summary["mean_return"] == 1.7e308 and summary["std_return"] == 0.0
    mixed = submit(server, policy_source("return [1.7e308 if obs[1] < 0.5 else -1.7e308]"), cases=range(6))
    assert set(mixed["returns"]) == {1.7e308, -1.7e308} and abs(mixed["mean_return"]) <= 1.7e308
    assert server.finish()["outcome"]["kind"] == "scored"


def test_trajectories_of_every_kind_read_back(serve):
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


def test_a_recording_that_is_too_large_ends_early_and_says_so(serve):
    """32 MiB of trajectory and of video for each episode; what is there can be read, and the episode goes on."""
    import av

    server = serve("--video", "first", *SMALL, task="toys:Vast-v0")
    summary = submit(server, cases=(0, 1))
    assert summary["lengths"] == [160, 160]
    left_out = [(one["episode"], one["what"].split()[1]) for one in summary["left_out"]]
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
        assert sizes.get("video.mp4", 0) < 33 * MIB and ("video.mp4" in sizes) == (number == 0)
    with av.open(str(episode(server, summary) / "video.mp4")) as video:
        assert 10 < sum(1 for _ in video.decode(video=0)) < 160


@pytest.mark.parametrize(("option", "filmed"), [("none", []), ("all", [0, 1, 2])])
def test_which_episodes_are_filmed(serve, option, filmed):
    server = serve("--video", option, *SMALL)
    summary = submit(server, cases=(0, 1, 2))
    assert [number for number in range(3) if (episode(server, summary, number) / "video.mp4").exists()] == filmed


def test_no_control_character_of_an_agent_reaches_a_terminal(serve):
    """Names, messages and output of a policy, on the way to whoever finishes, scores and verifies the run."""
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
    assert [one.returncode for one in shown] == [0, 0, 0, 1], shown
    assert server.process.stdout and server.process.stderr
    said = (
        "".join(one.stdout + one.stderr for one in shown) + server.process.stdout.read() + server.process.stderr.read()
    )
    assert said and not set("\x1b\x07\x00\x9b") & set(said)


def test_feedback_is_whole_when_it_appears(server):
    """Whoever sees the folder sees all of it, while it is being delivered."""
    number = server.call("GET", "/info")[1]["state"]["n_submits"] + 1
    folder, over, torn = server.workspace / "feedback" / f"submit_{number:03}", threading.Event(), []

    def watch() -> None:
        while not over.is_set():
            if folder.exists():
                missing = [
                    name
                    for name in ("summary.json", "errors.txt", "episodes/ep_003/stdout.txt")
                    if not (folder / name).exists()
                ]
                torn.extend(missing)
                return
            time.sleep(0)

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        submit(server, cases=(0, 1, 2, 3))
    finally:
        over.set()
        watcher.join()
    assert folder.exists() and torn == []
    for path in (folder, *folder.rglob("*")):
        assert path.stat().st_mode & 0o222 == 0, path


def test_feedback_can_be_read_although_the_judge_was_killed_when_it_appeared(tmp_path, monkeypatch):
    """By an agent that is another user, too."""
    source, rename = tmp_path / "feedback" / "submit_001", os.rename
    source.mkdir(parents=True)

    def rename_and_die(*arguments: Any, **options: Any) -> None:
        rename(*arguments, **options)
        kill_self()

    (workspace := tmp_path / "workspace").mkdir()
    with monkeypatch.context() as patch:
        patch.setattr(os, "rename", rename_and_die)
        assert_killed_in(lambda: judge_feedback.copy_to_workspace(source, workspace))
    judge_feedback.copy_to_workspace(source, workspace)
    assert (workspace / "feedback" / "submit_001").stat().st_mode & 0o777 == 0o555
