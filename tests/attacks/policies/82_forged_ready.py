"""Says that it is ready before it is, and computes on: the time of its construction would be nobody's."""

import os

from kit import ANSWERS, READY

WHEN = "import"
EXPECT = "crash"
CONTROL = "same"


def attack() -> bool:
    os.write(ANSWERS, READY)
    return False
