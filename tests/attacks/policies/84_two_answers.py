"""Gives two answers to one question; the second would count for the next."""

import os

from kit import ANSWERS, answer, nonce

EXPECT = "crash"
CONTROL = "same"


def attack() -> bool:
    os.write(ANSWERS, nonce() + answer(0))
    return False
