"""Sets flags on descriptors that it shares with the judge: not to block, direct, append; and moves their place."""

import fcntl
import os

CONTROL = "same"


def attack() -> bool:
    for descriptor in (1, 2):
        for flag in (os.O_NONBLOCK, os.O_DIRECT, os.O_APPEND, os.O_ASYNC):
            try:
                fcntl.fcntl(descriptor, fcntl.F_SETFL, flag)
            except OSError:
                pass
        os.lseek(descriptor, 1 << 40, os.SEEK_SET)
    return False
