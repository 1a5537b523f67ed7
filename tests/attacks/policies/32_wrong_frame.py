"""Answers a step as if it had been asked whether it is ready."""

import os

from kit import ANSWERS, READY, answer

EXPECT = "crash"
CONTROL = "same"


def attack() -> bool:
    os.write(ANSWERS, READY + answer(1))
    return False
