"""Uses whatever the process that forked it had open: the socket on which it is told to fork, for instance."""

import os
import stat

from kit import ANSWERS, REPORT, REQUESTS

CONTROL = "judge"


def attack() -> bool:
    found = {}
    for descriptor in range(4096):
        try:
            found[descriptor] = stat.S_IFMT(os.fstat(descriptor).st_mode)
        except OSError:
            pass
    standard = {0: stat.S_IFCHR, 1: stat.S_IFREG, 2: stat.S_IFREG}
    exchange = {REQUESTS: stat.S_IFIFO, ANSWERS: stat.S_IFIFO, REPORT: stat.S_IFREG}
    print(found)
    return found != standard | exchange
