"""Never finishes its import."""

WHEN = "import"
EXPECT = "timeout"
CONTROL = "same"


def attack() -> bool:
    while True:
        pass
