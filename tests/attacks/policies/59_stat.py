"""Asks for the size and the times of files it cannot read, and whether a process exists. At level B, without a
private root, nothing can refuse that; so the judge keeps secrets out of names, sizes and times."""

import os

from kit import FACTS, any_works

RESIDUE = ("B",)


def attack() -> bool:
    paths = (FACTS["secret"], FACTS["feedback"], f"/proc/{FACTS['judge']}", "/etc/passwd", "/proc/self")
    return any_works(*[lambda path=path: os.stat(path) for path in paths], lambda: os.access(FACTS["secret"], os.F_OK))
