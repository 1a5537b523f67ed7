"""Sends its answer in pieces and computes between them: if each piece renewed the deadline, a step could take as
many times its limit as an action has bytes. The answer says 1, so that it counts as a breach if the judge takes it."""

import os
import time

from kit import ANSWERS, answer, nonce

EXPECT = "timeout"
CONTROL = "same"


def attack() -> bool:
    first, *rest = answer(1)
    os.write(ANSWERS, nonce() + bytes([first]))
    for byte in rest:
        start = time.process_time()
        while time.process_time() - start < 0.1:
            pass
        os.write(ANSWERS, bytes([byte]))
    return False
