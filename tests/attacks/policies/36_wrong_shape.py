"""Acts with an array of the wrong shape."""

EXPECT = "invalid_action"
CONTROL = "same"


def attack():
    return 0, [0.0] * 3
