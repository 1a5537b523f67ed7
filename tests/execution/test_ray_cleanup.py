"""The process that keeps a local Ray cluster ends all others, whatever its own threads do meanwhile."""

from __future__ import annotations

import subprocess
import sys

CHURNING_THREADS = """
import subprocess, threading
from evopolicygym.execution.ray.connection import _children, _kill_children

def churn():
    while True:
        threads = [threading.Thread(target=int) for _ in range(20)]
        for thread in threads: thread.start()
        for thread in threads: thread.join()

started = [subprocess.Popen(["sleep", "1000"]) for _ in range(5)]
for _ in range(3): threading.Thread(target=churn, daemon=True).start()
for _ in range(1500): _children()
_kill_children()
print(_children())
"""


def test_threads_that_end_do_not_stop_the_cleanup():
    """Each thread of a process lists its own children, and its list is gone with it."""
    done = subprocess.run([sys.executable, "-c", CHURNING_THREADS], capture_output=True, text=True, timeout=600)
    assert (done.stdout, done.stderr, done.returncode) == ("[]\n", "", 0)
