"""Wakes a process that waits on a word of a file both can read (the kernel knows the word by file and place, not by
address): two episodes that run side by side could talk."""

import ctypes
import mmap
import os

from kit import libc, syscall

FUTEX_WAKE = 1


def attack() -> bool:
    libc.mmap.restype = ctypes.c_void_p
    with open(os.__file__, "rb") as file:
        word = libc.mmap(None, ctypes.c_size_t(4096), mmap.PROT_READ, mmap.MAP_SHARED, file.fileno(), ctypes.c_long(0))
    return syscall("futex", ctypes.c_void_p(word), FUTEX_WAKE, 1, None, None, 0) > 0
