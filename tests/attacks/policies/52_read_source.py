"""Reads the source of the judge and of the simulator: the split rules, the reward, the checks."""

import os

from kit import FACTS, any_works


def attack() -> bool:
    files = (f"{FACTS['package_root']}/evopolicygym/tasks/splits.py", f"{FACTS['simulator']}/__init__.py")
    return any_works(
        *[lambda path=path: len(open(path).read()) for path in files],
        *[lambda path=path: len(os.listdir(os.path.dirname(path))) for path in files],
    )
