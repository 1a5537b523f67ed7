"""Answers with a frame that begins as it should and goes on for a hundred kilobytes."""

import os

from kit import CHANNEL, HEAD, STEP, answer, nonce

EXPECT = "crash"
CONTROL = "same"


def attack() -> bool:
    os.write(CHANNEL, HEAD.pack(STEP, nonce()) + answer(1) + b"\1" * 100_000)
    return False
