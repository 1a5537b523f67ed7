"""Answers the second question with the number of the first."""

import os

from kit import ANSWERS, answer, nonce

WHEN = "every act"
EXPECT = "crash"
CONTROL = "same"
seen: list[bytes] = []


def attack() -> bool:
    if seen:
        os.write(ANSWERS, seen[0] + answer(1))
    seen.append(nonce())
    return False
