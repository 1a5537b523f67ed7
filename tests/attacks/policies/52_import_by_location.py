"""Loads a module of the judge by the place of its file, past every finder."""

import importlib.util

from kit import FACTS, any_works


def load(path: str) -> None:
    spec = importlib.util.spec_from_file_location("stolen", path)
    spec.loader.exec_module(importlib.util.module_from_spec(spec))


def attack() -> bool:
    return any_works(
        lambda: load(f"{FACTS['package_root']}/evopolicygym/printable.py"), lambda: load(f"{FACTS['simulator']}/version.py")
    )
