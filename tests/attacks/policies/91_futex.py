"""Wakes a process that waits on a word of a file both can read, and waits there itself: the kernel knows such a word
by file and place, not by address, so that two episodes side by side could talk."""

import ctypes
import errno
import mmap
import os

from kit import any_works, libc, syscall

WAIT, WAKE = 0, 1


def attack() -> bool:
    libc.mmap.restype = ctypes.c_void_p
    with open(os.__file__, "rb") as file:
        page = libc.mmap(None, ctypes.c_size_t(4096), mmap.PROT_READ, mmap.MAP_SHARED, file.fileno(), ctypes.c_long(0))
    word, soon = ctypes.c_void_p(page), (ctypes.c_long * 2)(0, 1_000_000)
    value = ctypes.c_uint.from_address(page).value
    return any_works(
        lambda: syscall("futex", word, WAKE, 1, None, None, 0) > 0,
        lambda: syscall("futex", word, WAIT, value, soon, None, 0) == -errno.ETIMEDOUT,
        lambda: syscall("futex_wake", word, -1, 1, 2) > 0,
    )
