"""Read the corpus of edits labelled by hand: before, after, the kind of the edit, and why."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from run_folders import Step

CORPUS = Path(__file__).parent / "corpus"


@dataclass(frozen=True)
class LabelledEdit:
    name: str
    label: str
    why: str
    steps: tuple[Step, ...]


def labelled_edits() -> list[LabelledEdit]:
    return [pair for file in sorted(CORPUS.glob("*.toml")) for pair in _read(file)]


def _read(file: Path) -> Iterator[LabelledEdit]:
    for entry in tomllib.loads(file.read_text())["pair"]:
        versions = [*entry.get("history", []), entry["before"], *entry.get("between", []), entry["after"]]
        yield LabelledEdit(f"{file.stem}: {entry['name']}", entry["label"], entry["why"], tuple(map(_step, versions)))


def _step(version: str | dict[str, Any]) -> Step:
    """Return the step of a version: one file as text, several by name, or an earlier submission with its verdict."""
    if isinstance(version, str):
        return Step({"policy.py": version})
    if "source" in version:
        return Step({"policy.py": version["source"]}, verdict=version.get("verdict", "ok"))
    return Step(version)
