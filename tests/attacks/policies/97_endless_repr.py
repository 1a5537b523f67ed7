"""Acts with an object that is no action, and never finishes to say what it is."""

EXPECT = "timeout"
CONTROL = "same"


class Action:
    def __repr__(self) -> str:
        while True:
            pass


def attack():
    return 0, [Action(), Action()]
