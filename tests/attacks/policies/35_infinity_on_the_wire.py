"""Sends infinity past its own encoder, straight onto the wire."""

import os

from kit import CHANNEL, HEAD, STEP, answer, nonce

EXPECT = "invalid_action"
CONTROL = "same"


def attack() -> bool:
    os.write(CHANNEL, HEAD.pack(STEP, nonce()) + answer(1, float("inf")))
    return False
