"""Answers with nothing, and then again as it should: nothing must not read like the end of the exchange."""

import os

from kit import ANSWERS

CONTROL = "same"


def attack() -> bool:
    os.write(ANSWERS, b"")
    return False
