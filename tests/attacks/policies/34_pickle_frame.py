"""Sends a pickle that runs a command when it is loaded. Nothing of the judge loads pickles."""

import os
import pickle

from kit import ANSWERS, FACTS

EXPECT = "crash"
CONTROL = "same"


class Bomb:
    def __reduce__(self):
        return os.system, (f"touch {FACTS['shared']}/unpickled",)


def attack() -> bool:
    os.write(ANSWERS, pickle.dumps(Bomb()))
    return False
