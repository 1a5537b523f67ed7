"""Pause while the machine lacks disk space, memory, descriptors or processes: tell the user, probe, and continue.

During a pause nothing is charged: submissions are answered with a fault (HTTP 503), and hidden scoring and the agent's
loop wait. It is reported on stderr, because every file of the run may be on the full disk.
"""

from __future__ import annotations

import errno
import logging
import mmap
import os
import re
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from enum import StrEnum
from pathlib import Path
from typing import Final, TypeVar

from evopolicygym.errors import FULL, Fault, causes
from evopolicygym.files import open_unnamed

Result = TypeVar("Result")
WAITING_PREFIX: Final = "waiting: "  # begins the message of a process that waits; a suite shows it in its table
WAIT_OVER: Final = "the wait is over"
PROBE_S: Final = 1.0
PROBE_BYTES: Final = 8 << 20  # of disk or memory that must be free; twice as much at each further pause
MAX_PROBE_BYTES: Final = 64 << 20
PROBE_FILES: Final = 32
UNSEEN: Final = 3  # failures in a row for a shortage that no probe sees: then it is an error like any other
# A fault of a worker process arrives as text, in which Python writes the number of a system error like this.
ERRNO: Final = re.compile(r"\[Errno (\d{1,3})\]")
NO_THREAD: Final = "can't start new thread"  # a RuntimeError of Python, without a number
log = logging.getLogger(__name__)


class Resource(StrEnum):
    """Resources that a machine can run out of."""

    DISK = "disk space"
    FILES = "open files"
    MEMORY = "memory"
    PROCESSES = "processes or threads"


RESOURCES: Final = {
    **dict.fromkeys(FULL, Resource.DISK),
    **dict.fromkeys((errno.EMFILE, errno.ENFILE), Resource.FILES),
    errno.ENOMEM: Resource.MEMORY,
    errno.EAGAIN: Resource.PROCESSES,
}
REMEDIES: Final = {
    Resource.DISK: "Free some space on the disk of {root}",
    Resource.FILES: "Close programs, or raise the limit of open files (prlimit --nofile=N --pid {pid})",
    Resource.MEMORY: "End other programs, or raise the limit of memory",
    Resource.PROCESSES: "End other programs, or raise the limit of processes",
}


def scarce_resource(error: BaseException) -> Resource | None:
    """Return what an error says is used up; None for any other error."""
    for cause in causes(error):
        number = getattr(cause, "errno", None)
        if number is None and isinstance(cause, Fault) and (match := ERRNO.search(str(cause))):
            number = int(match[1])
        if isinstance(cause, MemoryError) or number in RESOURCES:
            return RESOURCES.get(number or 0, Resource.MEMORY)
        if isinstance(cause, RuntimeError) and str(cause) == NO_THREAD:
            return Resource.PROCESSES if _has_memory(PROBE_BYTES) else Resource.MEMORY  # a thread needs a stack
    return None


def to_stderr(text: str) -> None:
    with suppress(OSError):  # a closed terminal must not cost a score
        print(text, file=sys.stderr, flush=True)


class ShortagePause:
    """The pause of one run. ``resource`` is what it waits for, None while there is enough. From any thread.

    Args:
        root: The run's folder.
        notify: Gets one message when a pause begins, and one when it is over.
    """

    def __init__(self, root: Path, notify: Callable[[str], object] = to_stderr) -> None:
        self.resource: Resource | None = None
        self._root, self._notify = root, notify
        self._lock = threading.Lock()
        self._began = self._probed_at = 0.0
        self._pauses = 0

    def begin(self, error: BaseException) -> bool:
        """Begin a pause, and tell the user, if an error is a shortage; return whether it is."""
        resource = scarce_resource(error)
        with self._lock:
            if resource is None or self.resource is resource:
                return resource is not None
            self.resource, self._began, self._pauses = resource, time.monotonic(), self._pauses + 1
        log.warning("paused: no %s left", resource, exc_info=error)
        remedy = REMEDIES[resource].format(root=self._root, pid=os.getpid())
        self._notify(
            f"{WAITING_PREFIX}the judge of {self._root} has no {resource} left, and pauses. Nothing is lost and "
            f"nothing is charged. {remedy}: the run continues by itself."
        )
        return True

    def is_over(self, is_urgent: bool = False) -> bool:
        """Probe whether there is enough again, at most once a second unless it ``is_urgent``; tell the user if it
        is."""
        with self._lock:
            if self.resource is None:
                return True
            if not is_urgent and time.monotonic() < self._probed_at + PROBE_S:
                return False
            self._probed_at = time.monotonic()
            resource = self.resource
            if not _has(resource, self._root, min(MAX_PROBE_BYTES, PROBE_BYTES << (self._pauses - 1))):
                return False
            self.resource = None
        self._notify(f"{WAIT_OVER} after {time.monotonic() - self._began:.0f} s: the judge has enough {resource} again")
        return True

    def check(self) -> None:
        """Raise Fault during a pause."""
        if not self.is_over(is_urgent=True):
            raise Fault(f"the judge has no {self.resource} left and pauses; nothing was charged. Submit again later")

    def tolerate(self, work: Callable[[], object]) -> None:
        """Do work that is not needed now: in a shortage it is left out."""
        try:
            work()
        except Exception as error:
            if not self.begin(error):
                raise

    def retry(self, work: Callable[[], Result], stop: threading.Event | None = None) -> Result:
        """Do work that can be repeated. While there is a shortage, wait and do it again; raise any other error, and
        the last one when ``stop`` is set."""
        stop, unseen = stop or threading.Event(), 0
        while True:
            try:
                return work()
            except Exception as error:
                if unseen >= UNSEEN or not self.begin(error):
                    raise
                waits = 0
                while not stop.wait(PROBE_S) and not self.is_over():
                    waits += 1
                if stop.is_set():
                    raise
                unseen = 0 if waits > 1 else unseen + 1


def _has(resource: Resource, root: Path, size: int) -> bool:
    """Return whether there is enough, by using it: limits and quotas show in no table."""
    try:
        if resource is Resource.DISK:
            for folder in {root, Path(tempfile.gettempdir())}:
                with open_unnamed(folder) as file:
                    os.posix_fallocate(file.fileno(), 0, size)
        elif resource is Resource.MEMORY:
            return _has_memory(size)
        elif resource is Resource.PROCESSES:
            thread = threading.Thread(target=int, daemon=True)
            thread.start()
            thread.join()
        else:
            with ExitStack() as stack:
                for _ in range(PROBE_FILES):
                    stack.callback(os.close, os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC))
    except (OSError, MemoryError, RuntimeError):
        return False
    return True


def _has_memory(size: int) -> bool:
    try:
        mmap.mmap(-1, size).close()
    except (OSError, MemoryError):
        return False
    return True
