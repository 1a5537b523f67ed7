"""A judge without disk space, memory or descriptors: it tells its user, pauses, and continues by itself."""

from __future__ import annotations

import errno
import json
import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from evopolicygym.errors import Fault
from evopolicygym.judge import shortage
from evopolicygym.judge.shortage import Resource, ShortagePause, scarce_resource

MOUNTED = 'mount -t tmpfs -o size=64m tmpfs "$1" && exec "$2" "$3" "$1" disk'
SCRIPT = Path(__file__).with_name("shortage_script.py")


@pytest.mark.parametrize(
    ("error", "resource"),
    [
        (OSError(errno.ENOSPC, "full"), Resource.DISK),
        (OSError(errno.EMFILE, "many"), Resource.FILES),
        (MemoryError(), Resource.MEMORY),
        (BlockingIOError(errno.EAGAIN, "fork"), Resource.PROCESSES),
        (RuntimeError("can't start new thread"), Resource.PROCESSES),
        (RuntimeError("dictionary changed size during iteration"), None),
        (Fault("a worker: OSError: [Errno 28] No space left on device"), Resource.DISK),
        (Fault("a worker died"), None),
        (ValueError("[Errno 28]"), None),
        (OSError(errno.EACCES, "no"), None),
    ],
)
def test_what_an_error_says_is_used_up(error, resource):
    assert scarce_resource(error) is resource
    try:
        raise Fault("it cannot be stored") from error
    except Fault as fault:
        assert scarce_resource(fault) is resource


def test_work_is_repeated_when_there_are_descriptors_again(tmp_path, monkeypatch):
    monkeypatch.setattr(shortage, "PROBE_S", 0.01)
    before, notices, failures = resource.getrlimit(resource.RLIMIT_NOFILE), [], []

    def work() -> str:
        try:
            os.close(os.open(os.devnull, os.O_RDONLY))
        except OSError as error:
            failures.append(error)
            raise
        return "done"

    def tell(text: str) -> None:
        notices.append(text)
        resource.setrlimit(resource.RLIMIT_NOFILE, before)

    lowest_free = os.open(os.devnull, os.O_RDONLY)
    os.close(lowest_free)
    resource.setrlimit(resource.RLIMIT_NOFILE, (lowest_free, before[1]))
    try:
        pause = ShortagePause(tmp_path, tell)
        assert pause.retry(work) == "done" and len(failures) == 1 and pause.resource is None
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
    assert len(notices) == 2 and "no open files left" in notices[0] and notices[1].startswith(shortage.WAIT_OVER)


def test_a_shortage_that_no_probe_sees_is_an_error_in_the_end(tmp_path, monkeypatch):
    monkeypatch.setattr(shortage, "PROBE_S", 0.001)
    attempts = []

    def work() -> None:
        attempts.append(1)
        raise Fault("[Errno 28] of another disk")

    with pytest.raises(Fault):
        ShortagePause(tmp_path, lambda _: None).retry(work)
    assert len(attempts) == shortage.UNSEEN + 1


def test_a_full_disk_pauses_a_run_and_its_scoring(tmp_path):
    command = ["unshare", "--mount", "sh", "-c", MOUNTED, "sh", str(tmp_path), sys.executable, str(SCRIPT)]
    if subprocess.run(["unshare", "--mount", "true"], capture_output=True).returncode:
        pytest.skip("no file system can be mounted here")
    check_pauses(command, "disk space", "Free some space on the disk of", [[200, 1]])


def test_a_lack_of_memory_pauses_a_run_and_its_scoring(tmp_path):
    """The memory of the judge's process is limited for real: not even a thread can be started."""
    check_pauses([sys.executable, str(SCRIPT), str(tmp_path), "memory"], "memory", "End other programs, or raise")


def check_pauses(command, resource, remedy, while_it_plays=()):
    """``while_it_plays``: answers to submissions in which the shortage began. Each is charged once, not refunded."""
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    assert answers == [[200, 3], [503, 3], [503, 3], f"paused: no {resource}", [200, 2], *while_it_plays, "scored"]
    notices = done.stderr.splitlines()
    assert [line.partition(":")[0].partition(" after")[0] for line in notices] == ["waiting", "the wait is over"] * (
        2 + len(while_it_plays)
    )
    assert remedy in notices[0] and f"has no {resource} left" in notices[0] and "continues by itself" in notices[0]
