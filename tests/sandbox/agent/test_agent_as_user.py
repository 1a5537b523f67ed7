"""Run the tests of this folder again as an ordinary user."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
AS_USER = HERE.parents[1] / "attacks" / "as_user.py"


@pytest.mark.slow
@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to be somebody else")
@pytest.mark.parametrize("part", ["sandbox", "cleanup", "network", "levels"])
def test_as_an_ordinary_user(part):
    suite = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(HERE / f"test_agent_{part}.py")]
    done = subprocess.run([sys.executable, str(AS_USER), *suite], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout
