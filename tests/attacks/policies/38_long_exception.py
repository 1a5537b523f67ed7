"""Fails with a megabyte of text, to fill the judge's records."""

EXPECT = "act_error"
CONTROL = "same"


def attack() -> bool:
    raise ValueError("x" * (1 << 20))
