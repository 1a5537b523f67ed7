"""Which runs were opened by this installation: their first ledger line holds a signature under a key that only it has.

A run folder may come from somebody else, and then it decides nothing about this machine (``runs/grants``). A folder
that this installation opened itself, with settings that nobody has changed since, can be taken up without naming all
of it again. The key is never disclosed, unlike a sealing key."""

from __future__ import annotations

import hashlib
import hmac
import os
from pathlib import Path

from evopolicygym.errors import UserError
from evopolicygym.judge.events import Opened
from evopolicygym.tasks.sealing import create_key, load_key


def sign(run: str, settings: str) -> str:
    """Return the signature of a run and the hash of its settings; empty where no key can be kept."""
    try:
        key = load_key(_key_file()) if _key_file().exists() else create_key(_key_file())
    except (UserError, OSError):
        return ""
    return _signature(key, run, settings)


def is_signed_here(opened: Opened | None) -> bool:
    if not opened or not opened.signature or not opened.settings:
        return False
    try:
        own = _signature(load_key(_key_file()), opened.run, opened.settings)
    except (UserError, OSError):
        return False
    return hmac.compare_digest(own, opened.signature)


def _signature(key: bytes, run: str, settings: str) -> str:
    return hmac.new(key, f"evopolicygym run|{run}|{settings}".encode(), hashlib.sha256).hexdigest()


def _key_file() -> Path:
    config = os.environ.get("XDG_CONFIG_HOME") or os.path.expanduser("~/.config")
    return Path(config) / "evopolicygym" / "runs.key"
