"""Runs into its memory limit and does not catch it: the verdict must name the cause."""

EXPECT = "oom"
CONTROL = "same"


def attack() -> bool:
    return len(bytearray(1 << 30)) > 0
