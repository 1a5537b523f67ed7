"""Secrets are in no environment, file or memory of other processes."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from pathlib import Path

import pytest

from conftest import policy_source, toy_task, write_policy
from evopolicygym.execution.engine import LocalEngine
from evopolicygym.execution.records import Episode
from evopolicygym.tasks.sealing import KEY_VARIABLE
from evopolicygym.tasks.splits import Case, Split, new_salt


def descendants(pid: int) -> Iterator[int]:
    for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
        yield int(child)
        yield from descendants(int(child))


def memory(pid: int) -> Iterator[bytes]:
    """Return the writable memory of a process, which contains all that it was ever sent."""
    with open(f"/proc/{pid}/mem", "rb", buffering=0) as file:
        for line in Path(f"/proc/{pid}/maps").read_text().splitlines():
            span, rights = line.split()[:2]
            if rights.startswith("rw"):
                first, last = (int(end, 16) for end in span.split("-"))
                file.seek(first)
                yield file.read(last - first)


def test_the_sealing_key_is_in_no_environment_of_a_child(monkeypatch):
    monkeypatch.setenv(KEY_VARIABLE, "ab" * 32)
    with LocalEngine(toy_task()) as engine:
        worker = engine._workers[0]._process.pid
        children = list(descendants(worker))
        assert children
        for pid in (worker, *children):
            assert b"abab" not in Path(f"/proc/{pid}/environ").read_bytes()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may read the memory of a zygote in its own user namespace")
def test_the_zygote_of_policies_holds_nothing_that_was_sent_to_the_worker(monkeypatch):
    """Both are forked from one process: this proves that they separate before anything secret is sent."""
    secret = secrets.token_hex(16)
    monkeypatch.setenv("SOME_TOKEN", secret)
    with LocalEngine(toy_task()) as engine:
        worker = engine._workers[0]._process.pid
        assert any(secret.encode() in part for part in memory(worker))
        for pid in descendants(worker):
            assert not any(secret.encode() in part for part in memory(pid))
            assert {int(fd) for fd in os.listdir(f"/proc/{pid}/fd")} <= set(range(8))


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may read the memory of a zygote in its own user namespace")
def test_the_salt_of_a_run_is_in_no_zygote(tmp_path):
    """Zygotes get a key that is derived from it."""
    task, salt = toy_task(), new_salt()
    with LocalEngine(task) as engine:
        checkpoint = engine.store.snapshot(write_policy(tmp_path / "policy", policy_source()))
        list(engine.run([Episode(0, checkpoint, Case(task.id, Split.HELDOUT, 0, 7, salt))]))
        worker = engine._workers[0]._process.pid
        assert any(salt.encode() in part for part in memory(worker))
        for pid in descendants(worker):
            assert not any(salt.encode() in part or bytes.fromhex(salt) in part for part in memory(pid))
