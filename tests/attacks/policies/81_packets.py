"""Turns its end of the pipe into one that keeps packets, of which a reader loses what it does not take at once."""

import fcntl
import os

from kit import ANSWERS

CONTROL = "same"


def attack() -> bool:
    fcntl.fcntl(ANSWERS, fcntl.F_SETFL, os.O_DIRECT | os.O_ASYNC)
    return False
