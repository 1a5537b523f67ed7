"""Acts with 2**64 + 1, which is 1 for anything that cuts off the high bits."""

EXPECT = "invalid_action"
CONTROL = "same"


def attack():
    return 2**64 + 1, [0.0, 0.0]
