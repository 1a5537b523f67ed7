"""A copy of a run is not another run."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from synthetic_records import synthetic_run, write

import evopolicygym
from evopolicygym.analysis.analyze import analyze_runs
from evopolicygym.analysis.loading import SkipKind, collect_runs
from evopolicygym.errors import UserError

EXAMPLE = Path(__file__).parents[2] / "examples" / "runs" / "acrobot__tuner__s0"


def test_copies_of_a_folder_are_refused_with_their_names(tmp_path):
    (run,) = [synthetic_run(name="original")]
    write([run, run, synthetic_run(name="other")], tmp_path)
    collected = collect_runs(tmp_path)
    assert [kept.id for kept in collected.runs] == ["original", "other"]
    (skipped,) = collected.skipped
    assert skipped.kind is SkipKind.COPY
    assert skipped.path.endswith("001") and skipped.reason.endswith("000")


def test_the_same_id_with_another_ledger_is_refused_too(tmp_path):
    write([synthetic_run(name="one"), synthetic_run((5.0, 6.0), name="one")], tmp_path)
    collected = collect_runs(tmp_path)
    assert len(collected.runs) == 1 and "with another ledger" in collected.skipped[0].reason


def test_every_reader_refuses_copies(tmp_path):
    for name in ("a", "b"):
        shutil.copytree(EXAMPLE, tmp_path / name)
    assert [skip.kind for skip in analyze_runs([tmp_path]).skipped] == [SkipKind.COPY]
    with pytest.warns(UserWarning, match="its ledger is that of"):
        runs = evopolicygym.load_runs(tmp_path)
    assert len(runs) == 1
    page = evopolicygym.write_report(tmp_path, tmp_path / "page.html")
    assert page.runs == 1 and [skip.kind for skip in page.skipped] == [SkipKind.COPY]
    twice = [evopolicygym.load_run(tmp_path / name) for name in ("a", "b")]
    with pytest.raises(UserError, match="is a copy of a run that is given"):
        evopolicygym.leaderboard(twice)
    with pytest.raises(UserError, match="is a copy of a run that is given"):
        evopolicygym.compare(tmp_path / "a", tmp_path / "b")
