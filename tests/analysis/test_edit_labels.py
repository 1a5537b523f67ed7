"""What each label means, fixed by pairs that were labelled by hand; and the same on every Python."""

from __future__ import annotations

import argparse
import asyncio.base_events
import dataclasses
import inspect
import json
import shutil
import subprocess
import sys
import typing
from pathlib import Path

import pytest
from edit_corpus import labelled_edits
from run_folders import write_checkpoint, write_run

from evopolicygym.analysis.diagnostics import diagnose
from evopolicygym.analysis.edits.code_reader_child import read_code
from evopolicygym.analysis.edits.kinds import EDITS, EditKind
from evopolicygym.analysis.loading import RunFolder, open_run_folder
from evopolicygym.sandbox.limited_process import FLAGS, PACKAGE_ROOT

PAIRS = labelled_edits()
# Pairs of which the canonical form says something else than a person.
DISAGREEMENTS = {
    "kinds: a temporary variable is inlined",
    "shape: a decorator",
    "shape: a walrus",
    "shape: if to match",
    "shape: from a list to a tuple",
    "shape: weights out of the source",
    "second: an expression moved into a method",
    "second: augmented assignment",
}
READ_ALL = """
import json, pathlib, sys
sys.path.append(sys.argv[1])
from evopolicygym.analysis.edits.code_reader_child import read_code
print(json.dumps({folder.name: read_code(folder) for folder in pathlib.Path(sys.argv[2]).iterdir()}))
"""


@pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: pair.name)
def test_a_labelled_pair(pair, tmp_path):
    opened = open_run_folder(write_run(tmp_path / "run", pair.steps).folder)
    assert isinstance(opened, RunFolder)
    event = diagnose(opened).timeline[-1]
    assert event.kind == pair.label, pair.why
    assert (event.canonical == pair.person) == (pair.name not in DISAGREEMENTS), (event.canonical, pair.why)


def test_the_documented_agreement_with_a_person():
    """docs/diagnostics.md states these numbers; `python benchmarks/labels.py` prints them."""
    kinds = [pair for pair in PAIRS if pair.name.startswith("kinds: ")]
    held_out = [pair for pair in PAIRS if pair.held_out]
    second = [pair for pair in PAIRS if pair.name.startswith("second: ")]
    assert (len(PAIRS), len(kinds), len(held_out), len(second)) == (149, 33, 11, 12)
    assert {pair.name for pair in PAIRS} >= DISAGREEMENTS
    text = (Path(__file__).parents[2] / "docs" / "diagnostics.md").read_text()
    for pairs in (PAIRS, kinds, held_out, second):
        agreed = sum(pair.name not in DISAGREEMENTS for pair in pairs)
        assert f"| {agreed} of {len(pairs)} |\n" in text


def test_the_corpus_is_large_and_knows_every_label():
    assert len({pair.name for pair in PAIRS}) == len(PAIRS) >= 60
    assert {pair.label for pair in PAIRS} == {*EDITS} - {EditKind.UNKNOWN}


@pytest.fixture(scope="module")
def checkpoints(tmp_path_factory) -> Path:
    store = tmp_path_factory.mktemp("checkpoints")
    for pair in PAIRS:
        for step in pair.steps:
            write_checkpoint(store, step.files)
    for module in (argparse, asyncio.base_events, dataclasses, inspect, typing):
        write_checkpoint(store, {"policy.py": Path(module.__file__).read_bytes()})
    return store


@pytest.mark.parametrize("minor", [11, 12, 13])
def test_every_python_reads_the_same(checkpoints, minor):
    """Shapes that were recorded by one Python are compared with those of another. Messages of parsers differ."""
    theirs = json.loads(subprocess.check_output([python(minor), *FLAGS, "-c", READ_ALL, PACKAGE_ROOT, checkpoints]))
    ours = {folder.name: read_code(folder) for folder in checkpoints.iterdir()}
    for code in (*ours.values(), *theirs.values()):
        code["error"] = code["error"] is not None
    assert theirs == ours


def python(minor: int) -> str:
    if sys.version_info[:2] == (3, minor):
        return sys.executable
    name = f"python3.{minor}"
    candidates = [shutil.which(name), *Path.home().glob(f".pyenv/versions/3.{minor}.*/bin/{name}")]
    for candidate in filter(None, candidates):
        if subprocess.run([candidate, "-c", ""], capture_output=True).returncode == 0:
            return str(candidate)
    pytest.skip(f"there is no {name} here")
