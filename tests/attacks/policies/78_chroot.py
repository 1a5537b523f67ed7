"""Changes its root folder, the classic way out of one."""

import os

from kit import any_works

ROOT = True


def attack() -> bool:
    return any_works(lambda: os.chroot("."), lambda: os.chroot("/"))
