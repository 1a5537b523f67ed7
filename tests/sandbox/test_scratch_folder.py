"""Temporary folders are removed when their process ends, however it ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from evopolicygym.sandbox.agent.levels import scratch_folder
from process_helpers import wait_until

OPEN = """
import os, time
from evopolicygym.sandbox.agent.levels import scratch_folder
with scratch_folder("evopolicygym-test-") as place:
    (place / "sealed").mkdir()
    (place / "sealed" / "file").touch()
    (place / "sealed").chmod(0o500)
    print(place, flush=True)
    time.sleep(600)
"""


def test_the_folder_exists_within_the_block():
    with scratch_folder("evopolicygym-test-") as folder:
        assert folder.is_dir() and folder.stat().st_mode & 0o777 == 0o700
        (folder / "file").touch()
    assert not folder.exists()


def test_the_folder_is_removed_when_the_block_fails():
    with pytest.raises(ZeroDivisionError), scratch_folder("evopolicygym-test-") as folder:
        raise ZeroDivisionError
    assert not folder.exists()


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_the_folder_is_removed_when_its_process_is_killed(how):
    with subprocess.Popen([sys.executable, "-c", OPEN], stdout=subprocess.PIPE, text=True,
                          stderr=subprocess.DEVNULL) as process:  # fmt: skip
        assert process.stdout is not None
        folder = Path(process.stdout.readline().strip())
        assert (folder / "sealed" / "file").exists()
        os.kill(process.pid, how)
    assert wait_until(lambda: not folder.exists(), 30)
