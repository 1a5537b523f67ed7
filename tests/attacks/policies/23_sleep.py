"""Sleeps for ever: uses no CPU time at all, and would hold its worker until somebody noticed."""

import time

EXPECT = "timeout"
CONTROL = "same"


def attack() -> bool:
    while True:
        time.sleep(60)
