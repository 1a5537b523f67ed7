"""A worker does not grow with the number of episodes it has played."""

from __future__ import annotations

from pathlib import Path

import pytest

from conftest import policy_source, toy_task, train_cases, write_policy
from evopolicygym.execution.engine import LocalEngine
from evopolicygym.execution.records import Episode

MIB = 1024


def resident_kb(pid: int) -> int:
    status = Path(f"/proc/{pid}/status").read_text()
    return next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmRSS"))


def descriptors(pid: int) -> int:
    return len(list(Path(f"/proc/{pid}/fd").iterdir()))


def grow(tmp_path: Path, warm: int, episodes: int) -> tuple[int, int]:
    """Growth in KiB and in open files between episode ``warm`` and the last."""
    task = toy_task()
    folder = write_policy(tmp_path / "p", policy_source(act="print('x' * 1000); return 1"))
    listed = train_cases(task, 1024)
    with LocalEngine(task) as engine:
        pid = engine._workers[0]._process.pid
        checkpoint = engine.store.snapshot(folder)
        before = (0, 0)
        for number, _ in enumerate(engine.run(Episode(i, checkpoint, listed[i % 1024]) for i in range(episodes))):
            if number == warm:
                before = resident_kb(pid), descriptors(pid)
        return resident_kb(pid) - before[0], descriptors(pid) - before[1]


def test_a_worker_does_not_grow(tmp_path):
    memory, files = grow(tmp_path, 30, 150)
    assert memory < 2 * MIB
    assert files == 0


@pytest.mark.slow
def test_a_worker_does_not_grow_over_a_thousand_episodes(tmp_path):
    memory, files = grow(tmp_path, 100, 1100)
    assert memory < 2 * MIB
    assert files == 0
