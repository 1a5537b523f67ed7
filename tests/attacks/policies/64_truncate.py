"""Empties a file of the host with truncate(2): Landlock knows that right only since Linux 6.2."""

from kit import FACTS, syscall


def attack() -> bool:
    return syscall("truncate", FACTS["victim"].encode(), 0) == 0
