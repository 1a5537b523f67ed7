"""Whether packages import: tried in a child process, which a package may crash or hang."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from typing import Final

from evopolicygym.tasks.simulator import HEADLESS

PATIENCE_S: Final = 120.0  # for a group of packages that takes seconds: a cold disk is slow
MARK: Final = "imported "  # packages print things of their own
CHILD: Final = """
import importlib, json, sys
for name in sys.argv[1:]:
    try:
        importlib.import_module(name)
        error = ""
    except BaseException as failure:
        error = f"{type(failure).__name__}: {failure}"
    print("\\nimported " + json.dumps([name, error]), flush=True)
"""


def import_errors(modules: Sequence[str]) -> dict[str, str]:
    """Module to what its import raised; empty where it went well."""
    found: dict[str, str] = {}
    while left := [module for module in modules if module not in found]:
        told, how_it_ended = _try(left)
        found |= told
        if unsaid := [module for module in left if module not in told]:
            found[unsaid[0]] = how_it_ended
    return found


def _try(modules: Sequence[str]) -> tuple[dict[str, str], str]:
    """What a child told before it ended, and how it ended."""
    command = [sys.executable, "-P", "-c", CHILD, *modules]
    try:
        done = subprocess.run(
            command,
            env={**os.environ, **HEADLESS},
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            errors="replace",
            timeout=PATIENCE_S,
        )
        output, ending = done.stdout, f"its process ended with exit code {done.returncode}"
    except subprocess.TimeoutExpired as error:
        output = error.stdout.decode(errors="replace") if isinstance(error.stdout, bytes) else error.stdout or ""
        ending = f"the import did not end within {PATIENCE_S:.0f} s"
    lines = [line.removeprefix(MARK) for line in output.splitlines() if line.startswith(MARK)]
    return dict(json.loads(line) for line in lines), ending
