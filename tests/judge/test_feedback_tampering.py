"""An agent tampers with its copy of the feedback and with its workspace: no write of the judge follows it."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from feedback_helpers import read_strict_json, remove, submit

from conftest import policy_source
from evopolicygym.judge import delivery
from evopolicygym.tasks.conditions import FeedbackLevel
from server_helpers import SMALL, Server, command

SHOWN = delivery.ShownFiles(delivery.FILES[FeedbackLevel.TRAJECTORY])


@pytest.fixture(scope="module")
def server(serve_for_all: Callable[..., Server]) -> Server:
    return serve_for_all("--budget", "1000", *SMALL)


@pytest.fixture
def victim(tmp_path: Path) -> Path:
    """Return a folder outside of the workspace that must not change."""
    folder = tmp_path / "victim"
    folder.mkdir()
    (folder / "file").write_text("this must survive")
    return folder


def untouched(victim: Path) -> bool:
    return [path.name for path in victim.iterdir()] == ["file"] and (victim / "file").read_text() == "this must survive"


@pytest.mark.parametrize("kind", ["link", "dangling", "file", "fifo", "link to itself", "read-only", "missing"])
def test_a_replaced_feedback_folder_is_made_anew(server, victim, kind):
    feedback = server.workspace / "feedback"
    remove(feedback)
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
    assert read_strict_json(server.workspace / summary["feedback"] / "summary.json") == summary
    assert feedback.is_dir() and not feedback.is_symlink()


@pytest.mark.parametrize("kind", ["link", "folder", "file"])
def test_a_file_with_the_name_of_the_next_feedback_stays(server, victim, kind):
    """The planted file is not touched, and the copy of the judge is written."""
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
    assert read_strict_json(server.root / summary["feedback"] / "summary.json") == summary
    assert planted.is_symlink() == (kind == "link") and planted.is_file() == (kind == "file")
    assert submit(server)["status"] == "ok"


@pytest.mark.parametrize("kind", ["link", "file", "fifo", "missing"])
def test_a_replaced_system_folder_is_refused_for_free(server, victim, kind):
    remaining, system = server.remaining(), server.workspace / "system"
    remove(system)
    if kind == "link":
        system.symlink_to(victim)
    elif kind == "file":
        system.write_text("no")
    elif kind == "fifo":
        os.mkfifo(system)
    code, answer = server.submit([0])
    assert (code, answer["status"]) == (400, "snapshot_invalid") and str(server.root) not in answer["message"]
    remove(system)
    assert server.remaining() == remaining and untouched(victim)


def test_no_write_follows_a_link_that_is_swapped_in(server, victim):
    """The agent swaps the folder and a link to another one a thousand times during deliveries, at least twelve of
    them."""
    feedback, over, swaps, deliveries = server.workspace / "feedback", threading.Event(), 0, 0
    remove(feedback)
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
                    remove(path)
                if not feedback.is_dir() or feedback.is_symlink():
                    remove(feedback)
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
        remove(path)
    assert submit(server)["status"] == "ok" and server.process.poll() is None


def test_delivery_fails_cleanly_if_the_agent_fills_the_folder(tmp_path, monkeypatch):
    """The agent nests folders deeper than Python recurses and takes a name that is needed: it gets no feedback."""
    source, feedback = tmp_path / "submit_001", tmp_path / "workspace" / "feedback"
    feedback.mkdir(parents=True)
    (source / "episodes" / "ep_000").mkdir(parents=True)
    (source / "summary.json").write_text("{}")
    copy_file = delivery._copy_file

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

    monkeypatch.setattr(delivery, "_copy_file", build)
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (limits[1], limits[1]))  # or it runs out of these first
    try:
        with pytest.raises(delivery.DeliveryFailed):
            delivery.copy_to_workspace(source, feedback.parent, SHOWN)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
        subprocess.run(["rm", "-r", feedback], check=True)  # Python could not


def test_tampering_does_not_change_the_copy_of_the_judge(serve, victim):
    """Feedback is altered and deleted, door.json replaced; restart, outcome and verification are not affected."""
    server = serve()
    first, second = submit(server), submit(server, policy_source("return 2"))
    altered = server.workspace / first["feedback"] / "summary.json"
    os.chmod(altered.parent, 0o755)
    os.chmod(altered, 0o644)
    altered.write_text('{"status": "ok", "mean_return": 1e9}')
    remove(server.workspace / second["feedback"])
    door = server.workspace / "door.json"
    for replacement in (
        lambda: door.symlink_to(victim / "file"),
        lambda: door.mkdir(),
        lambda: (door.mkdir(), (door / "x").touch()),
    ):
        server.kill()
        remove(door)
        replacement()
        server.start()
        assert json.loads(door.read_text()) == {"api": server.api} and untouched(victim)
    assert read_strict_json(server.workspace / second["feedback"] / "summary.json") == second  # delivered again
    assert server.call("GET", "/submissions/submit_001")[1]["summary"] == first
    record = server.finish()
    assert record["outcome"]["submission"] == 2
    verified = command("verify", server.root)
    assert verified.returncode == 0, verified.stdout
    assert read_strict_json(server.root / first["feedback"] / "summary.json") == first


@pytest.mark.skipif(os.geteuid() != 0, reason="becomes another user, which takes root")
def test_an_inaccessible_workspace_is_refused_for_free():
    """The judge is not root: submissions are refused, and the server can be restarted."""
    with tempfile.TemporaryDirectory() as folder:  # pytest's own are closed to others
        os.chmod(folder, 0o777)
        check_shut_out(Server(Path(folder) / "run", as_user=True))


def check_shut_out(server: Server) -> None:
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
