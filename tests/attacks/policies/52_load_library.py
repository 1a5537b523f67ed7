"""Loads the compiled half of a simulator as a shared library."""

import ctypes

from kit import FACTS, any_works


def attack() -> bool:
    return any_works(lambda: ctypes.CDLL(FACTS["library"]))
