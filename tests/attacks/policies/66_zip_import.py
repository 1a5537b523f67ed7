"""Imports from an archive outside its folder: the import system opens files on a policy's behalf."""

import importlib
import sys

from kit import FACTS, any_works


def attack() -> bool:
    sys.path.insert(0, FACTS["zip"])
    return any_works(lambda: importlib.import_module("stolen"))
