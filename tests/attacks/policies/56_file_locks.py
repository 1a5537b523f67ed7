"""Locks a file that every policy can read. Two episodes that run side by side could talk in locks, bit by bit."""

import fcntl
import os
import struct

from kit import any_works

OFD_SETLK, SETLEASE, NOTIFY = 37, 1024, 1026


def attack() -> bool:
    lock = struct.pack("hhqqi", fcntl.F_RDLCK, 0, 0, 0, 0)
    with open(os.__file__, "rb") as file:
        return any_works(
            lambda: fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB),
            lambda: fcntl.lockf(file, fcntl.LOCK_SH | fcntl.LOCK_NB),
            lambda: fcntl.fcntl(file, OFD_SETLK, lock),
            lambda: fcntl.fcntl(file, SETLEASE, fcntl.F_RDLCK),
            lambda: fcntl.fcntl(file, NOTIFY, 1),
        )
