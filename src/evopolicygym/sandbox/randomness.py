"""Randomness of a policy: every source that Python and numpy offer draws from one keyed stream per case.

So an unseeded policy is random from case to case, and equal to the bit when a case is repeated.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from hashlib import blake2b
from typing import Any

import numpy as np


def keyed_bytes(key: bytes) -> Callable[[int], bytes]:
    """An ``os.urandom`` whose output is determined by ``key`` and by what was drawn before."""
    counter = 0

    def urandom(size: int, /) -> bytes:
        nonlocal counter
        if size < 0:
            raise ValueError("negative argument not allowed")
        blocks = []
        for _ in range(-(-size // 64)):
            blocks.append(blake2b(counter.to_bytes(8, "little"), key=key).digest())
            counter += 1
        return b"".join(blocks)[:size]

    return urandom


def install(key: bytes) -> None:
    """Key ``os.urandom`` and ``os.getrandom`` (and with them secrets, uuid4, default_rng()), ``random`` and
    ``numpy.random``. What asks the kernel from C, such as ``ssl.RAND_bytes``, is out of reach."""
    urandom = keyed_bytes(key)
    seed_from = random.Random.seed

    def seed(self: random.Random, a: Any = None, version: int = 2) -> None:
        seed_from(self, int.from_bytes(urandom(32), "little") if a is None else a, version)

    names: dict[str, Any] = {"_urandom": urandom}
    vars(random).update(names)
    setattr(os, "urandom", urandom)  # noqa: B010 - mypy refuses the plain assignment
    setattr(os, "getrandom", lambda size, flags=0: urandom(size))  # noqa: B010
    setattr(random.Random, "seed", seed)  # noqa: B010
    random.seed = random._inst.seed
    random.seed()
    np.random.seed(np.frombuffer(urandom(64), np.uint32))
