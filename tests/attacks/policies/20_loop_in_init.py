"""Never finishes its construction."""

WHEN = "init"
EXPECT = "timeout"
CONTROL = "same"


def attack() -> bool:
    while True:
        pass
