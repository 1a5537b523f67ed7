"""The sealing key behind the hidden cases: create one, and read it."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True)
class SealKey:
    """A sealing key. ``file`` holds it, None if an environment variable does; ``splits_id`` names the cases that follow
    from it, as records and leaderboards do; ``key`` is the secret in hexadecimal digits, which reveals every hidden
    case."""

    file: Path | None
    splits_id: str
    key: str = field(repr=False)


def create_seal_key(file: str | os.PathLike[str] | None = None) -> SealKey:
    """Create a sealing key of 256 random bits that only you can read. An existing key is never overwritten.

    Args:
        file: The file to write (default: the standard key file).

    Raises:
        UserError: The file exists, or cannot be written.

    >>> import evopolicygym, pathlib, tempfile
    >>> file = pathlib.Path(tempfile.mkdtemp(), "seal.key")
    >>> created = evopolicygym.create_seal_key(file)
    >>> created == evopolicygym.load_seal_key(file), created.splits_id[:7]
    (True, 'sealed:')
    """
    from evopolicygym.tasks import sealing

    path = sealing.key_file() if file is None else Path(file)
    return _seal_key(path, sealing.create_key(path))


def load_seal_key(file: str | os.PathLike[str] | None = None) -> SealKey:
    """Return a sealing key, such as to disclose it after publication: others can then recompute the cases.

    Args:
        file: The key file (default: the key in use, which is created if there is none).

    Raises:
        UserError: The file cannot be read, others can read it, or it holds no key.

    >>> import evopolicygym, pathlib, tempfile
    >>> file = pathlib.Path(tempfile.mkdtemp(), "seal.key")
    >>> file.touch(0o600)
    >>> _ = file.write_text("ab" * 32)
    >>> evopolicygym.load_seal_key(file).key[:8]
    'abababab'
    """
    from evopolicygym.tasks import sealing

    if file is not None:
        return _seal_key(Path(file), sealing.load_key(Path(file)))
    key = sealing.load_key()
    return _seal_key(None if os.environ.get(sealing.KEY_VARIABLE) else sealing.key_file(), key)


def _seal_key(file: Path | None, key: bytes) -> SealKey:
    from evopolicygym.tasks.splits import commitment

    return SealKey(file, f"sealed:{commitment(key)}", key.hex())
