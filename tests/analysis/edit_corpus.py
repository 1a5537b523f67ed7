"""Read the corpus of edits labelled by hand: before, after, the kind of the edit, and why.

``label`` is the kind by the paper's rules, ``person`` the kind that a person gives it who ignores names, order, unused
code and formatting.
"""

from __future__ import annotations

import io
import tomllib
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from run_folders import Step

CORPUS = Path(__file__).parent / "corpus"


@dataclass(frozen=True)
class LabelledEdit:
    name: str
    label: str
    person: str
    why: str
    steps: tuple[Step, ...]
    held_out: bool


def labelled_edits() -> list[LabelledEdit]:
    return [pair for file in sorted(CORPUS.glob("*.toml")) for pair in _read(file)]


def _read(file: Path) -> Iterator[LabelledEdit]:
    for entry in tomllib.loads(file.read_text())["pair"]:
        versions = [*entry.get("history", []), entry["before"], *entry.get("between", []), entry["after"]]
        yield LabelledEdit(
            name=f"{file.stem}: {entry['name']}",
            label=entry["label"],
            person=entry.get("person", entry["label"]),
            why=entry["why"],
            steps=tuple(map(_step, versions)),
            held_out=entry.get("held_out", False),
        )


def _step(version: str | dict[str, Any]) -> Step:
    """Return the step of a version: one file as text, several by name, or an earlier submission with its verdict."""
    if isinstance(version, str):
        return Step({"policy.py": version})
    if "source" in version:
        return Step({"policy.py": version["source"]}, verdict=version.get("verdict", "ok"))
    return Step({path: _content(text) for path, text in version.items()})


def _content(text: str) -> str | bytes:
    """Return the arrays that `npz:w1=4x2,b1=4` stands for as a file; with `npz+:` they have other numbers."""
    kind, _, arrays = text.partition(":")
    if kind not in ("npz", "npz+"):
        return text
    shapes = dict(array.split("=") for array in arrays.split(","))
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        for name, shape in shapes.items():
            archive.writestr(zipfile.ZipInfo(f"{name}.npy"), _array([int(side) for side in shape.split("x")], kind))
    return content.getvalue()


def _array(shape: list[int], kind: str) -> bytes:
    content = io.BytesIO()
    np.save(content, np.arange(np.prod(shape)).reshape(shape) / (7.0 if kind == "npz" else 5.0))
    return content.getvalue()
