"""What is secret stays with the judge."""

from __future__ import annotations

from pathlib import Path

from conftest import toy_task
from evopolicygym.rollout.engine import LocalEngine
from evopolicygym.tasks.sealing import KEY_VARIABLE


def test_the_sealing_key_is_in_no_childs_environment(monkeypatch):
    monkeypatch.setenv(KEY_VARIABLE, "ab" * 32)
    with LocalEngine(toy_task()) as engine:
        worker = engine._workers[0]._process.pid
        children = Path(f"/proc/{worker}/task/{worker}/children").read_text().split()
        assert children
        for pid in (worker, *children):
            assert b"abab" not in Path(f"/proc/{pid}/environ").read_bytes()
