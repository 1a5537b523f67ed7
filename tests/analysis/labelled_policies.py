"""Read the policies whose mechanisms were labelled by hand."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from evopolicygym.analysis.edits.bundle import read_bundle
from evopolicygym.analysis.edits.mechanisms import RULES, Evidence, find_mechanisms

ROOT = Path(__file__).parents[2]
POLICIES = Path(__file__).parent / "policies" / "mechanisms.toml"


@dataclass(frozen=True)
class LabelledPolicy:
    """``held_out``: the rules were not tuned on it. ``fresh``: written after them, and measured once. ``second``:
    written later, without knowing the rules."""

    name: str
    mechanisms: frozenset[str]
    files: dict[str, str]
    held_out: bool
    fresh: bool
    second: bool

    def find(self, folder: Path) -> dict[str, Evidence]:
        """Write the policy into a folder and return what the rules find."""
        for path, text in self.files.items():
            (folder / path).write_text(text)
        return find_mechanisms(read_bundle(folder))


def labelled_policies() -> list[LabelledPolicy]:
    entries = tomllib.loads(POLICIES.read_text())["policy"]
    return [
        LabelledPolicy(
            entry["name"],
            frozenset(entry["mechanisms"]),
            {path: (ROOT / source).read_text() for path, source in entry["files"].items()}
            if "files" in entry
            else {"policy.py": entry["source"]},
            entry.get("held_out", False),
            entry.get("fresh", False),
            entry.get("second", False),
        )
        for entry in entries
    ]


def agreement(pairs: Iterable[tuple[frozenset[str], frozenset[str]]]) -> dict[str, tuple[int, int, int]]:
    """Return for each mechanism how often it was found and is there, is there, and was found.

    A pair is what a person finds, and what the rules find.
    """
    listed = list(pairs)
    return {
        name: (
            sum(name in person and name in found for person, found in listed),
            sum(name in person for person, _ in listed),
            sum(name in found for _, found in listed),
        )
        for name in RULES
    }
