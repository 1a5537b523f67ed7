"""Fails with an exception that never finishes to describe itself."""

EXPECT = "timeout"
CONTROL = "same"


class Endless(Exception):
    def __str__(self) -> str:
        while True:
            pass


def attack() -> bool:
    raise Endless
