"""Reads the environment of the judge's processes, and of another that its user has started: keys and tokens are often
there."""

import os

from kit import FACTS, any_works, is_secret, reads_secret


def attack() -> bool:
    others = (os.getppid(), *FACTS["processes"], FACTS["judge"], FACTS["sleeper"])
    paths = [f"/proc/{pid}/environ" for pid in ("self", 1, *others)]
    own = [lambda: is_secret(repr(os.environ)), lambda: is_secret(repr(os.environb))]
    return any_works(*own, *[lambda path=path: reads_secret(path) for path in paths])
