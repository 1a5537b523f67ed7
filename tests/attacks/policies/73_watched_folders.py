"""Watches a folder of the judge: names and times of what is written there tell how other episodes go."""

import os

from kit import FACTS, any_works, libc, syscall


def watch() -> bool:
    handle = syscall("inotify_init1", 0)
    return handle >= 0 and libc.inotify_add_watch(handle, os.fsencode(FACTS["feedback"]), 0xFFF) >= 0


def attack() -> bool:
    return any_works(watch, lambda: syscall("fanotify_init", 0, 0) >= 0)
