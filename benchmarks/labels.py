"""Measure how labels of edits and of mechanisms agree with those that a person gave: `python benchmarks/labels.py`.

docs/diagnostics.md has the numbers. The labelled sets are in tests/analysis/corpus.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1] / "tests" / "analysis"))

from edit_corpus import LabelledEdit, labelled_edits  # type: ignore[import-not-found]
from labelled_policies import agreement, labelled_policies  # type: ignore[import-not-found]
from run_folders import write_run  # type: ignore[import-not-found]

from evopolicygym.analysis.diagnostics import diagnose
from evopolicygym.analysis.edits.timeline import TimelineEvent
from evopolicygym.analysis.loading import RunFolder, open_run_folder


def main() -> None:
    show_edits()
    show_mechanisms()


def show_edits() -> None:
    edits = [(pair, _label(pair)) for pair in labelled_edits()]
    print("edits: agreement with a person")
    for title, chosen in (
        ("all pairs", edits),
        ("the 33 kinds", [edit for edit in edits if edit[0].name.startswith("kinds: ")]),
        ("held out of them", [edit for edit in edits if edit[0].held_out]),
        ("second", [edit for edit in edits if edit[0].name.startswith("second: ")]),
    ):
        paper = sum(event.kind == pair.person for pair, event in chosen)
        canonical = sum(event.canonical == pair.person for pair, event in chosen)
        print(f"  {title}: paper's labels {paper}, canonical form {canonical} of {len(chosen)}")
    for pair, event in edits:
        if event.canonical != pair.person:
            print(f"  {pair.name}: {event.canonical}, a person: {pair.person}")


def show_mechanisms() -> None:
    labels = []
    for policy in labelled_policies():
        with tempfile.TemporaryDirectory() as folder:
            labels.append((policy, frozenset(policy.find(Path(folder)))))
    for title, chosen in (
        ("labelled before the rules", [pair for pair in labels if not (pair[0].fresh or pair[0].second)]),
        ("of them, not tuned on", [pair for pair in labels if pair[0].held_out]),
        ("fresh", [pair for pair in labels if pair[0].fresh]),
        ("second", [pair for pair in labels if pair[0].second]),
    ):
        print(f"mechanisms: agreement with a person on {len(chosen)} policies ({title})")
        for name, (both, person, rules) in agreement((policy.mechanisms, names) for policy, names in chosen).items():
            print(f"  {name}: precision {both} of {rules}, recall {both} of {person}")


def _label(pair: LabelledEdit) -> TimelineEvent:
    with tempfile.TemporaryDirectory() as folder:
        opened = open_run_folder(write_run(Path(folder) / "run", pair.steps).folder)
        assert isinstance(opened, RunFolder)
        return diagnose(opened).timeline[-1]


if __name__ == "__main__":
    main()
