"""Makes a system call the 32-bit way, where the numbers mean other calls than the filter knows."""

import ctypes
import mmap
import os

EXPECT = "crash"
MACHINE = "x86_64"
GETPID = bytes.fromhex("53 b814000000 cd80 5b c3")  # push rbx; mov eax, 20; int 0x80; pop rbx; ret


def attack() -> bool:
    rights = mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC
    page = mmap.mmap(-1, 4096, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, rights)
    page.write(GETPID)
    address = ctypes.addressof(ctypes.c_char.from_buffer(page))
    return ctypes.CFUNCTYPE(ctypes.c_int)(address)() == os.getpid()
