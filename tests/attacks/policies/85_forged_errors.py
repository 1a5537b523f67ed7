"""Reports every stage of failure in turn, and one that does not exist, to pass a forfeit off as a fault of the
judge."""

import os

import kit
from kit import ANSWERS, REPORT, failure

EPISODES = 8
EXPECT = ("import_error", "init_error", "reset_error", "act_error", "invalid_action", "oom", "crash")
CONTROL = "same"


def attack() -> bool:
    os.pwrite(REPORT, b"the judge is out of memory: refund this episode", 0)
    os.write(ANSWERS, failure(kit.episode))
    return False
