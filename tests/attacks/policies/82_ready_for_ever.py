"""Says that it is ready, answers the reset itself, and never comes back from its import."""

import os

from kit import ANSWERS, NONCE_BYTES, READY, REQUESTS

WHEN = "import"
EXPECT = "timeout"
CONTROL = "same"


def attack() -> bool:
    os.write(ANSWERS, READY)
    os.write(ANSWERS, os.read(REQUESTS, NONCE_BYTES))
    while True:
        pass
