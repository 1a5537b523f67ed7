"""Uses whatever the process that forked it had open: the socket on which it is told to fork, for instance."""

import os
import stat

CONTROL = "judge"


def attack() -> bool:
    found = {}
    for descriptor in range(4096):
        try:
            found[descriptor] = stat.S_IFMT(os.fstat(descriptor).st_mode)
        except OSError:
            pass
    expected = {0: stat.S_IFCHR, 1: stat.S_IFREG, 2: stat.S_IFREG, 3: stat.S_IFSOCK}
    print(found)
    return found != expected
