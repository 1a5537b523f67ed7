"""Answers the next questions before they are asked: a policy that runs ahead of its observations has all the time."""

import os

from kit import ANSWERS, NONCE_BYTES, answer, nonce

EXPECT = "crash"
CONTROL = "same"


def attack() -> bool:
    now = int.from_bytes(nonce(), "little")
    for ahead in range(1, 4):
        os.write(ANSWERS, ((now + ahead) % 2**64).to_bytes(NONCE_BYTES, "little") + answer(1))
    return False
