"""Run folders: found wherever they are, and the broken ones named."""

from __future__ import annotations

import json
import warnings

import pytest
from folders import source, write_run

import evopolicygym
from evopolicygym.analysis.collect import Skipped
from evopolicygym.analysis.load import find_run_folders, open_run
from evopolicygym.analysis.survey import survey
from evopolicygym.errors import UserError

STEPS = [source("x = 1", validation=1), source("x = 2", validation=2)]


def test_runs_are_found_at_any_depth_and_once(tmp_path):
    for name in ("b", "a/one", "a/two/deep"):
        write_run(tmp_path / name, STEPS)
    found = find_run_folders([tmp_path, tmp_path / "a", tmp_path / "b"])
    assert [str(folder.relative_to(tmp_path)) for folder in found] == ["a/one", "a/two/deep", "b"]
    assert find_run_folders([tmp_path / "b"]) == [tmp_path / "b"]


def test_what_an_agent_left_in_its_folders_is_no_run(tmp_path):
    write_run(tmp_path / "run", [source("x = 1")])
    for forged in ("run/workspace/runs/best", "run/logs/best", "half/workspace/best", "half/checkpoints/best"):
        write_run(tmp_path / forged, STEPS)
    assert find_run_folders([tmp_path]) == [tmp_path / "run"]


def test_no_runs_at_all(tmp_path):
    with pytest.raises(UserError, match="no run in"):
        find_run_folders([tmp_path])
    with pytest.raises(UserError, match="is not a folder"):
        find_run_folders([tmp_path / "nowhere"])


def broken(facts: dict) -> dict[str, tuple[str, str]]:
    """Ways for a run.json to be no good, and a word of the reason."""
    text = json.dumps(facts)
    unknown = facts | {"submissions": [facts["submissions"][0] | {"checkpoint": "f" * 64}]}
    return {
        "empty": ("", "Invalid JSON"),
        "torn": (text[: len(text) // 2], "Invalid JSON"),
        "no record": ("[]", "not a run record"),
        "of the future": (text.replace('"schema_version": 1', '"schema_version": 2'), "schema_version"),
        "with more": (json.dumps(facts | {"extra": 1}), "extra"),
        "with nan": (text.replace("-500.0", "NaN"), "failure_return"),
        "open": (json.dumps(facts | {"status": "open", "outcome": None}), "unfinished: open: still played"),
        "closed": (json.dumps(facts | {"status": "closed"}), "unfinished: closed, but not scored yet"),
        "shuffled": (json.dumps(facts | {"submissions": facts["submissions"][::-1]}), "out of order"),
        "unknown checkpoint": (json.dumps(unknown), "submission 1 names a checkpoint that is not recorded"),
    }


def test_broken_folders_are_named_and_the_rest_is_read(tmp_path):
    whole = write_run(tmp_path / "whole", STEPS)
    ways = broken(whole.facts)
    for name, (text, _) in ways.items():
        (tmp_path / name).mkdir()
        (tmp_path / name / "run.json").write_text(text)
    (tmp_path / "half written").mkdir()
    (tmp_path / "half written" / "ledger.jsonl").touch()
    (tmp_path / "a folder" / "run.json").mkdir(parents=True)
    found = survey([tmp_path])
    assert [run.who.id for run in found.runs] == ["whole"]
    reasons = {skipped.path.rpartition("/")[2]: skipped.why for skipped in found.skipped}
    expected = {name: says for name, (_, says) in ways.items()}
    expected |= {"half written": "unfinished: there is a ledger", "a folder": "broken: cannot read"}
    assert reasons.keys() == expected.keys()
    for name, says in expected.items():
        assert says in reasons[name]
        assert reasons[name].startswith("unfinished" if says.startswith("unfinished") else "broken")


def test_code_is_read_where_it_was_not_recorded(tmp_path):
    recorded = open_run(write_run(tmp_path / "a", STEPS).folder)
    read = open_run(write_run(tmp_path / "b", STEPS, code=False).folder)
    assert read.code == recorded.code


def test_neither_code_nor_checkpoints(tmp_path):
    written = write_run(tmp_path / "run", STEPS, code=False)
    (written.folder / "checkpoints").rename(tmp_path / "elsewhere")
    opened = open_run(written.folder)
    assert isinstance(opened, Skipped)
    assert "has neither recorded code nor a folder" in opened.reason


def test_rows_for_pandas(tmp_path):
    pandas = pytest.importorskip("pandas")
    write_run(tmp_path / "one", STEPS)
    write_run(tmp_path / "two", [], agent=None)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        rows = evopolicygym.load_runs(tmp_path)
    frame = pandas.DataFrame(rows).set_index("id")
    assert frame.loc["one", "heldout_mean"] == 1.0
    assert frame.loc["one", "parametric_edits"] == frame.loc["one", "parametric_hits"] == 1
    assert frame.loc["one", "episodes_to_50"] == 2
    assert frame.loc["one", "selected_lines"] == 1
    assert frame.loc["one", "refused"] == 3
    assert frame["area"].isna().tolist() == [False, True]
    assert frame["agent"].isna().tolist() == [False, True]
    assert all(isinstance(value, str | int | float | None) for row in rows for value in row.values())


def test_rows_leave_broken_runs_out_with_a_warning(tmp_path):
    write_run(tmp_path / "one", STEPS)
    (tmp_path / "two").mkdir()
    (tmp_path / "two" / "ledger.jsonl").touch()
    with pytest.warns(UserWarning, match="two is left out: unfinished: there is a ledger") as caught:
        rows = evopolicygym.load_runs(str(tmp_path))
    assert len(rows) == 1
    assert caught[0].filename == __file__
