"""Mounts something: a copy of a folder it may not read, a file system of its own."""

import os

from kit import FACTS, any_works, is_secret, syscall

ROOT = True
HERE, CLONE = -100, 1
FOLDER, NAME = os.path.split(FACTS["secret"])


def copy() -> bool:
    tree = syscall("open_tree", HERE, FOLDER.encode(), CLONE)
    return tree >= 0 and is_secret(os.read(os.open(NAME, os.O_RDONLY, dir_fd=tree), 100))


def attack() -> bool:
    return any_works(copy, lambda: syscall("fsopen", b"tmpfs", 0) >= 0)
