"""Feedback is delivered completely or not at all, also when the judge is killed meanwhile."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from feedback_helpers import submit

from evopolicygym.judge import delivery
from evopolicygym.tasks.conditions import FeedbackLevel
from process_helpers import assert_killed_in, kill_self
from server_helpers import AS_USER, SMALL, Server

SHOWN = delivery.ShownFiles(delivery.FILES[FeedbackLevel.TRAJECTORY])


@pytest.fixture(scope="module")
def server(serve_for_all: Callable[..., Server]) -> Server:
    return serve_for_all("--budget", "1000", *SMALL)


@pytest.mark.skipif(os.getuid() != 0, reason="root may write where others may not, so it becomes somebody else")
def test_partly_delivered_feedback_is_removed():
    """Although its folders are read-only already."""
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
from evopolicygym.judge import delivery
shown = delivery.ShownFiles(frozenset(('trajectory.jsonl', 'summary.json')))
try:
    delivery.copy_to_workspace(Path({str(source)!r}), Path({str(feedback.parent)!r}), shown)
except delivery.DeliveryFailed:
    print("undeliverable")
"""
        done = subprocess.run([sys.executable, AS_USER, sys.executable, "-c", script], capture_output=True, text=True)
        assert done.stdout == "undeliverable\n", done.stderr
        assert not list(feedback.iterdir())


def test_feedback_is_complete_when_it_appears(server):
    """A thread watches the folder during the delivery."""
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


def test_feedback_is_readable_after_a_kill_at_its_rename(tmp_path, monkeypatch):
    """Also by an agent that is another user."""
    source, rename = tmp_path / "feedback" / "submit_001", os.rename
    source.mkdir(parents=True)

    def rename_and_die(*arguments: Any, **options: Any) -> None:
        rename(*arguments, **options)
        kill_self()

    (workspace := tmp_path / "workspace").mkdir()
    with monkeypatch.context() as patch:
        patch.setattr(os, "rename", rename_and_die)
        assert_killed_in(lambda: delivery.copy_to_workspace(source, workspace, SHOWN))
    delivery.copy_to_workspace(source, workspace, SHOWN)
    assert (workspace / "feedback" / "submit_001").stat().st_mode & 0o777 == 0o555
