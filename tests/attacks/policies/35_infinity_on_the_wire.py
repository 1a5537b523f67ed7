"""Sends infinity past its own encoder, straight onto the wire."""

import os
import signal

from kit import ANSWERS, answer, nonce

EXPECT = "invalid_action"
CONTROL = "same"


def attack() -> bool:
    os.write(ANSWERS, nonce() + answer(1, float("inf")))
    signal.pause()
    return False
