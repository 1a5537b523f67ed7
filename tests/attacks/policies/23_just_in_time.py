"""Burns nearly all the time that each step allows. Every answer is in time; together they are too late."""

import time

WHEN = "every act"
EXPECT = "timeout"
CONTROL = "same"


def attack() -> bool:
    start = time.process_time()
    while time.process_time() - start < 0.18:
        pass
    return False
