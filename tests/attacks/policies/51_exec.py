"""Becomes a shell. Without the jail it does, and ends with a code of its own choice."""

import os

from kit import any_works

CONTROL = "crash"


def attack() -> bool:
    command = ["sh", "-c", "exit 42"]
    return any_works(lambda: os.execv("/bin/sh", command), lambda: os.execve("/bin/su", ["su"], {}))
