"""Answers with ten megabytes, to make the judge take the memory for it."""

import os

from kit import ANSWERS, answer, nonce

EXPECT = "crash"
CONTROL = "same"


def attack() -> bool:
    os.write(ANSWERS, nonce() + answer(1) + b"\1" * (10 << 20))
    return False
