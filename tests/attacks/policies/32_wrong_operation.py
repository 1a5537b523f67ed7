"""Answers a step as if it had been a reset."""

import os

from kit import CHANNEL, HEAD, RESET, answer, nonce

EXPECT = "crash"
CONTROL = "same"


def attack() -> bool:
    os.write(CHANNEL, HEAD.pack(RESET, nonce()) + answer(1))
    return False
