"""Prints forty megabytes, through Python and past it: output that nobody reads must neither block nor grow."""

import os
import sys

CONTROL = "same"


def attack() -> bool:
    for stream in (sys.stdout, sys.stderr):
        for _ in range(20):
            stream.write("x" * (1 << 20))
    for descriptor in (1, 2):
        try:
            while os.write(descriptor, b"y" * (1 << 20)):
                pass
        except OSError:
            pass
    return False
