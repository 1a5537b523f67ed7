"""Answers the next questions before they are asked: a policy that runs ahead of its observations has all the time."""

import os

from kit import CHANNEL, HEAD, STEP, answer, nonce

EXPECT = "crash"
CONTROL = "same"


def attack() -> bool:
    for ahead in range(1, 4):
        os.write(CHANNEL, HEAD.pack(STEP, (nonce() + ahead) % 2**32) + answer(1))
    return False
