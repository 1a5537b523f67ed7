"""Randomness of a policy: every source of Python and numpy draws from one keyed stream per case.

So an unseeded policy differs from case to case, and is equal to the bit when a case is repeated.
"""

from __future__ import annotations

import os
import random
from hashlib import blake2b
from typing import Any

import numpy as np


class Stream:
    """Bytes that are determined by a key and by the number of bytes drawn before."""

    def __init__(self) -> None:
        self.begin(bytes(32))

    def begin(self, key: bytes) -> None:
        self._key, self._blocks = key, 0

    def draw(self, size: int) -> bytes:
        if size < 0:
            raise ValueError("negative argument not allowed")
        blocks = []
        for _ in range(-(-size // 64)):
            blocks.append(blake2b(self._blocks.to_bytes(8, "little"), key=self._key).digest())
            self._blocks += 1
        return b"".join(blocks)[:size]


_stream = Stream()


def install() -> None:
    """Let ``os.urandom`` and ``os.getrandom`` (and with them secrets, uuid4, default_rng()), ``random`` and
    ``numpy.random`` draw from the stream. C code that asks the kernel, such as ``ssl.RAND_bytes``, cannot be
    changed."""
    seed_from = random.Random.seed

    def urandom(size: int, /) -> bytes:
        return _stream.draw(size)

    def seed(self: random.Random, a: Any = None, version: int = 2) -> None:
        seed_from(self, int.from_bytes(urandom(32), "little") if a is None else a, version)

    names: dict[str, Any] = {"_urandom": urandom}
    vars(random).update(names)
    setattr(os, "urandom", urandom)  # noqa: B010 - mypy refuses the plain assignment
    setattr(os, "getrandom", lambda size, flags=0: urandom(size))  # noqa: B010
    setattr(random.Random, "seed", seed)  # noqa: B010
    random.seed = random._inst.seed


def begin(key: bytes) -> None:
    """Restart the stream with ``key`` and seed all generators from it."""
    _stream.begin(key)
    random.seed()
    np.random.seed(np.frombuffer(_stream.draw(64), np.uint32))
