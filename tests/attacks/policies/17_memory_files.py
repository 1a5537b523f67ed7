"""Puts memory into files that have no path: it lies outside the limit on address space."""

import os

from kit import any_works, syscall


def attack() -> bool:
    return any_works(lambda: os.memfd_create("more"), lambda: syscall("memfd_secret", 0) >= 0)
