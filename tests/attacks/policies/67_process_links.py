"""Reads links of /proc, which no file rule covers: where a process works, what it runs, what it has open."""

import os

from kit import FACTS, any_works


def attack() -> bool:
    links = ("cwd", "exe", "root", "fd/0", "fd/1", "fd/3", "ns/mnt")
    others = (FACTS["judge"], FACTS["sleeper"], *FACTS["processes"])
    return any_works(*[lambda path=f"/proc/{pid}/{link}": os.readlink(path) for pid in others for link in links])
