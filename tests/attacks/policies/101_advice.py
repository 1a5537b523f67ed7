"""Gives the kernel advice about memory that reaches beyond this process: to empty the page cache of files that others
read (so that bits can be left there again and again, to be read by the time a read takes), to merge equal pages (so
that a write tells whether somebody else holds the same)."""

import ctypes
import mmap

from kit import any_works, libc

MERGEABLE, COLD, PAGEOUT = 12, 20, 21


def advise(advice: int) -> bool:
    """On a file that every policy may read."""
    with open(ctypes.__file__, "rb") as file:
        view = mmap.mmap(file.fileno(), 0, flags=mmap.MAP_PRIVATE, prot=mmap.PROT_READ | mmap.PROT_WRITE)
    address = ctypes.addressof(ctypes.c_char.from_buffer(view))
    return bool(libc.madvise(ctypes.c_void_p(address), ctypes.c_size_t(len(view)), advice) == 0)


def attack() -> bool:
    return any_works(lambda: advise(COLD), lambda: advise(PAGEOUT), lambda: advise(MERGEABLE))
