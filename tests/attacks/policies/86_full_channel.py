"""Fills the channel until it takes no more, to make the judge's side block or grow."""

import os

from kit import ANSWERS

EXPECT = "crash"
CONTROL = "same"


def attack() -> bool:
    os.set_blocking(ANSWERS, False)
    try:
        while True:
            os.write(ANSWERS, b"x" * 1000)
    except BlockingIOError:
        os.set_blocking(ANSWERS, True)
    return False
