"""Acts with NaN, which passes most comparisons and poisons a simulator."""

EXPECT = "invalid_action"
CONTROL = "same"


def attack():
    return 0, [float("nan"), 0.0]
