"""The disk space that a run reserves: a refund may use a part of it, other lines may not."""

from __future__ import annotations

import resource
import subprocess
import sys
from contextlib import contextmanager

import pytest

from evopolicygym.judge.events import Prompted, Refused
from evopolicygym.judge.judge import Judge
from evopolicygym.judge.ledger import LedgerUnwritable
from evopolicygym.run_paths import RESERVE, RunPaths
from evopolicygym.runs import disk_reserve


@pytest.fixture
def paths(tmp_path):
    paths = RunPaths(tmp_path / "run")
    paths.make()
    return paths


@contextmanager
def full_disk(size):
    """No file of this process may grow beyond ``size``. Yields what makes room again."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield lambda: resource.setrlimit(resource.RLIMIT_FSIZE, before)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_only_events_that_may_use_the_reserve_get_it(paths):
    asked = []
    judge = Judge(paths, None, lambda: asked.append(lift()) is None)
    judge.record(Prompted(1))
    with full_disk(paths.ledger.stat().st_size + 10) as lift:
        with pytest.raises(LedgerUnwritable):
            judge.record(Refused("busy"))
        assert not asked and sum(judge.state.refused.values()) == 0
        judge.record(Refused("busy"), from_reserve=True)
    assert len(asked) == 1 and sum(judge.state.refused.values()) == 1
    judge.close()


def test_without_a_reserve_a_full_disk_is_an_error(paths):
    judge = Judge(paths, None)
    with full_disk(10), pytest.raises(LedgerUnwritable):
        judge.record(Refused("busy"), from_reserve=True)
    judge.close()


def test_each_use_takes_a_part_of_the_reserve(paths):
    assert not disk_reserve.release_part(paths), "there is none yet"
    disk_reserve.make(paths)
    file = paths.root / RESERVE
    blocks = file.stat().st_blocks
    for _ in range(5):  # three refunds, the end of the run, and one to spare
        assert disk_reserve.release_part(paths)
    assert 0 < file.stat().st_blocks < blocks
    while disk_reserve.release_part(paths):
        pass
    assert disk_reserve.release(paths) and not disk_reserve.release(paths)


LOGGING = """
import logging, pathlib, resource, sys
from evopolicygym.runs import open_run
resource.setrlimit(resource.RLIMIT_FSIZE, (0, resource.RLIM_INFINITY))
with open_run._logging(pathlib.Path(sys.argv[1])):
    logging.getLogger("evopolicygym").error("a line")
print("done")
"""


def test_a_log_that_cannot_be_written_prints_no_traceback(paths):
    log = paths.logs / "judge.log"
    done = subprocess.run([sys.executable, "-c", LOGGING, log], capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("done\n", "") and log.stat().st_size == 0
