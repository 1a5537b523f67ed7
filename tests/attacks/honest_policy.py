"""Not an attack: the honest policy that must play right after every attack. It scores exactly 1."""

import kit

WHEN = "every act"


def attack() -> bool:
    return kit.step == 1
