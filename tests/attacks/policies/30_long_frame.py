"""Answers with a frame that begins as it should and goes on for one byte."""

import os

from kit import ANSWERS, answer, nonce

EXPECT = "crash"
CONTROL = "same"


def attack() -> bool:
    os.write(ANSWERS, nonce() + answer(1) + b"\1")
    return False
