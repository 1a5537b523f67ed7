"""Whether a cluster asks for its token: tried, by knocking without one."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Final

from evopolicygym.errors import UserError

KNOCK: Final = """
import sys
from ray._raylet import GcsClient
GcsClient(address=sys.argv[1]).internal_kv_keys(b"", None, timeout=10)
"""
REMEDY: Final = "Start every node with RAY_AUTH_MODE=token and the same token: see `evopolicygym docs cluster`."


def require_token(address: str) -> None:
    """Whoever reaches a cluster without a token runs what he likes on it: agents must not be able to."""
    if _lets_in(address):
        raise UserError(f"the Ray cluster at {address} takes orders from anybody who can reach it", REMEDY)


def _lets_in(address: str) -> bool:
    stranger = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")}
    stranger |= {"RAY_AUTH_MODE": "disabled", "HOME": os.devnull}
    command = [sys.executable, "-P", "-c", KNOCK, address]
    return subprocess.run(command, env=stranger, capture_output=True, timeout=120).returncode == 0
