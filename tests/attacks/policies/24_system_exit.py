"""Raises SystemExit, which well-meaning code lets pass."""

EXPECT = "act_error"
CONTROL = "same"


def attack() -> bool:
    raise SystemExit(0)
