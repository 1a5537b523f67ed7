"""Attaches to another process as a debugger would: from there on every secret and every verdict is its own to write."""

from kit import FACTS, syscall

ROOT = True
SEIZE = 0x4206


def attack() -> bool:
    return any(syscall("ptrace", SEIZE, pid, 0, 0) == 0 for pid in (FACTS["sleeper"], *FACTS["processes"]))
