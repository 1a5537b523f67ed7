"""Recurses without a limit until its stack is gone."""

import sys

EXPECT = ("act_error", "crash", "oom")
CONTROL = "same"


class Deep:
    def __getattr__(self, name: str) -> object:
        return getattr(self, name + "x")


def attack() -> bool:
    sys.setrecursionlimit(1 << 30)
    return bool(Deep().x)
