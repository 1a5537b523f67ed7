"""Imports the simulator from where it is installed, to plan with the very thing it is tested on."""

import importlib
import sys

from kit import FACTS, any_works

WHEN = "init"


def attack() -> bool:
    sys.path[:0] = [FACTS["site"], FACTS["package_root"]]
    sys.meta_path[:] = [finder for finder in sys.meta_path if type(finder).__name__ != "_NothingElse"]
    importlib.invalidate_caches()
    names = ("gymnasium", "evopolicygym.errors")
    return any_works(*[lambda name=name: importlib.import_module(name) for name in names])
