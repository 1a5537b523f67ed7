"""The runs in the repository are what their ledgers say, hold nothing of the machine that made them, and report."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from report_helpers import read as read_page
from typer.testing import CliRunner

import evopolicygym
from conftest import OTHER_MACHINE, TESTS
from evopolicygym.cli.main import _app
from evopolicygym.judge.ledger import line_hash, read
from evopolicygym.judge.state import fold
from evopolicygym.run_record import load
from evopolicygym.runs.record import derive
from evopolicygym.sandbox.checkpoints import CheckpointStore

SAMPLE = Path(__file__).parents[2] / "examples" / "runs"
RUNS = sorted(path.parent for path in SAMPLE.glob("*/run.json"))
MACHINE = re.compile(rb"/(?:home|root|tmp|usr|opt|work|var|mnt|Users)/|localhost|127\.0\.0\.1|\btoken\b|api_key", re.I)


@pytest.mark.parametrize("folder", RUNS, ids=lambda folder: folder.name)
def test_the_chain_holds_and_the_record_follows(folder):
    lines = list(read(folder / "ledger.jsonl"))
    derived = derive(fold(line for line, _ in lines), line_hash(lines[-1][1])).model_dump(mode="json")
    written = load(folder).model_dump(mode="json")
    for checkpoint in written["checkpoints"]:
        checkpoint["code"] = None
    assert derived == written


@pytest.mark.parametrize("folder", RUNS, ids=lambda folder: folder.name)
def test_checkpoints_are_what_their_names_say(folder, tmp_path):
    store = CheckpointStore(tmp_path)
    for checkpoint in load(folder).checkpoints:
        assert store.snapshot(folder / "checkpoints" / checkpoint.hash).hash == checkpoint.hash


def test_nothing_of_the_machine_is_in_it():
    files = [path for path in SAMPLE.rglob("*") if path.is_file() and path.suffix != ".mp4"]
    assert [path for path in files if MACHINE.search(path.read_bytes())] == []


def test_it_is_small():
    assert sum(path.stat().st_size for path in SAMPLE.rglob("*") if path.is_file()) < 1_200_000


def test_it_reports_without_a_word_of_warning(tmp_path, recwarn):
    done = CliRunner().invoke(_app(), ["report", str(SAMPLE), "-o", str(tmp_path / "report.html"), "--json"])
    assert done.exit_code == 0 and not recwarn.list
    report = json.loads(done.stdout)
    assert report["runs"] == len(RUNS) == 12 and report["skipped"] == [] and len(report["figures"]) >= 8
    page = read_page(tmp_path / "report.html")
    assert {"core16/acrobot", "core16/mountain-car-continuous"} <= set(page.text)
    assert any(str(a.get("href")).endswith("ep_000/video.mp4") for tag, a in page.tags if tag == "a")


def test_its_rows_load(recwarn):
    runs = evopolicygym.load_runs(SAMPLE)
    assert len(runs) == 12 and not recwarn.list
    assert {name.split()[0] for name in runs.runs["entrant"]} == {"starter", "tuner", "command"}


@pytest.mark.parametrize(
    ("machine", "folders"),
    [("this", RUNS[::6]), ("another", RUNS[1::4]), pytest.param("another", RUNS, marks=pytest.mark.slow)],
)
def test_verify_confirms_it_on_any_machine(machine, folders):
    """To the bit, although a bit_id is a machine's own."""
    paths = [str(TESTS), *([str(OTHER_MACHINE)] if machine == "another" else [])]
    for folder in folders:
        done = subprocess.run(
            [sys.executable, "-m", "evopolicygym", "verify", str(folder), "--json"],
            env=os.environ | {"PYTHONPATH": os.pathsep.join(paths)}, capture_output=True, text=True,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr
        report = json.loads(done.stdout)
        details = {finding["what"]: finding["detail"] for finding in report["findings"]}
        assert report["ok"] and report["replay"] == "equal"
        if machine == "another":
            assert "the bit_id differs" in details["replay"]
