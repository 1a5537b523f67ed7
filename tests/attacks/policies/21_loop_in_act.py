"""Never answers."""

EXPECT = "timeout"
CONTROL = "same"


def attack() -> bool:
    while True:
        pass
