"""Acts with an object that never finishes to be deleted, once its value has been taken and the next one comes."""

WHEN = "every act"
EXPECT = "timeout"
CONTROL = "same"


class Action(tuple):
    def __del__(self) -> None:
        while True:
            pass


def attack():
    return Action((0, [0.0, 0.0]))
