"""Acts with an integer of a thousand digits."""

EXPECT = "invalid_action"
CONTROL = "same"


def attack():
    return 10**1000, [0.0, 0.0]
