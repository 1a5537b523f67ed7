"""Sends the action 2 of two (0 and 1) straight onto the wire: simulators index arrays with it."""

import os
import signal

from kit import ANSWERS, answer, nonce

EXPECT = "invalid_action"
CONTROL = "same"


def attack() -> bool:
    os.write(ANSWERS, nonce() + answer(2))
    signal.pause()
    return False
