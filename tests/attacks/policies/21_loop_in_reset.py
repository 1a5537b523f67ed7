"""Never finishes its reset."""

WHEN = "reset"
EXPECT = "timeout"
CONTROL = "same"


def attack() -> bool:
    while True:
        pass
