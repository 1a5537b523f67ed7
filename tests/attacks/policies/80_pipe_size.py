"""Changes the size of the pipes to the judge: tiny, so that the judge's writes block, or large, at the judge's cost."""

import fcntl

from kit import ANSWERS, REQUESTS, any_works

SET_SIZE = 1031


def attack() -> bool:
    return any_works(lambda: fcntl.fcntl(REQUESTS, SET_SIZE, 4096), lambda: fcntl.fcntl(ANSWERS, SET_SIZE, 1 << 20))
