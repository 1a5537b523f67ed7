"""Opens files of Python and numpy for writing (and writes nothing): the next interpreter that starts would run them."""

import os

import numpy as np

from kit import FACTS, any_works

ROOT = True


def attack() -> bool:
    files = (os.__file__, np.__file__, FACTS["python"], "/etc/ld.so.cache", "/etc/ld.so.preload")
    modes = (os.O_WRONLY, os.O_RDWR, os.O_WRONLY | os.O_APPEND)
    return any_works(*[lambda path=path, mode=mode: os.open(path, mode) for path in files for mode in modes])
