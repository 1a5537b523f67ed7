"""The sealing key, from which sealed splits are derived. It never enters a child's environment or a record."""

from __future__ import annotations

import os
import secrets
import stat
from pathlib import Path
from typing import Final

from evopolicygym.errors import UserError
from evopolicygym.files import read_text_file

KEY_BYTES: Final = 32
KEY_VARIABLE: Final = "EVOPOLICYGYM_SEAL_KEY"
FILE_VARIABLE: Final = "EVOPOLICYGYM_SEAL_KEY_FILE"


def key_file() -> Path:
    if name := os.environ.get(FILE_VARIABLE):
        return Path(name)
    config = os.environ.get("XDG_CONFIG_HOME") or os.path.expanduser("~/.config")
    return Path(config) / "evopolicygym" / "seal.key"


def load_key(path: Path | None = None, make: bool = True) -> bytes:
    """Read the key from ``path``, else the environment, else the key file, which ``make`` allows to create."""
    if path is None and (text := os.environ.get(KEY_VARIABLE)):
        return _decode(text, f"the variable {KEY_VARIABLE}")
    source = path or key_file()
    if path is None and make and not source.exists():
        create_key(source)
    return _read(source)


def create_key(path: Path) -> bytes:
    """Write a new key of 256 random bits, readable by its owner alone. Never overwrites a file: scores under a lost key
    can no longer be compared with new ones."""
    key = secrets.token_bytes(KEY_BYTES)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w") as file:
            file.write(key.hex() + "\n")
    except FileExistsError:
        raise UserError(
            f"{path} exists, and a sealing key is never overwritten", "Name another file with --out (file=)."
        ) from None
    except OSError as error:
        raise UserError(
            f"cannot write the sealing key to {path}: {error.strerror}",
            f"Set {FILE_VARIABLE} to a file you can write, or use --seeds paper.",
        ) from error
    return key


def _read(path: Path) -> bytes:
    try:
        text = read_text_file(path)
        mode = path.stat().st_mode
    except (OSError, ValueError) as error:
        raise UserError(f"cannot read the sealing key {path}: {error}") from error
    key = _decode(text, str(path))
    if stat.S_IMODE(mode) & 0o077:
        raise UserError(f"others can read the sealing key {path}", f"chmod 600 {path}")
    return key


def _decode(text: str, where: str) -> bytes:
    try:
        key = bytes.fromhex(text.strip())
    except ValueError:
        key = b""
    if len(key) < KEY_BYTES:
        raise UserError(f"the sealing key in {where} is not {2 * KEY_BYTES} or more hexadecimal digits")
    return key
