"""Fails with an exception whose description fails too, and whose name is no name."""

EXPECT = "act_error"
CONTROL = "same"


class Worse(BaseException):
    def __str__(self) -> str:
        raise self

    __repr__ = __str__


Worse.__name__ = "\x1b[2J\u202e"


def attack() -> bool:
    raise Worse
