"""Sends the action 2 of two (0 and 1) straight onto the wire: simulators index arrays with it."""

import os

from kit import CHANNEL, HEAD, STEP, answer, nonce

EXPECT = "invalid_action"
CONTROL = "same"


def attack() -> bool:
    os.write(CHANNEL, HEAD.pack(STEP, nonce()) + answer(2))
    return False
