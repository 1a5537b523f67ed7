"""Acts with objects whose conversion to a number runs code: it must run here, never in the judge."""

import numpy as np

from kit import FACTS

EXPECT = "invalid_action"
CONTROL = "same"


class Evil:
    def __float__(self) -> float:
        open(f"{FACTS['shared']}/converted", "w").close()
        return 1.0

    __index__ = __int__ = __float__


def attack():
    return 0, np.array([Evil(), Evil()], object)
