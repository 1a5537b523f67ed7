"""Run folders: found wherever they are, and the broken ones named."""

from __future__ import annotations

import json
import os
import warnings
from pathlib import Path

import pytest
from run_folders import source, write_run

import evopolicygym
from evopolicygym.analysis.analyze import analyze_runs
from evopolicygym.analysis.edits.code_reader import SourceReader
from evopolicygym.analysis.loading import Skipped, analyze_folder, find_run_folders, open_run_folder
from evopolicygym.errors import UserError

STEPS = [source("x = 1", validation=1), source("x = 2", validation=2)]


def test_runs_are_found_at_any_depth_and_once(tmp_path):
    for name in ("b", "a/one", "a/two/deep"):
        write_run(tmp_path / name, STEPS)
    folders = find_run_folders([tmp_path, tmp_path / "a", tmp_path / "b"])
    assert [str(folder.relative_to(tmp_path)) for folder in folders] == ["a/one", "a/two/deep", "b"]
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
        "open": (json.dumps(facts | {"status": "open", "outcome": None}), "unfinished: open: still running"),
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
    analysis = analyze_runs([tmp_path])
    assert [run.summary.id for run in analysis.runs] == ["whole"]
    reasons = {skipped.path.rpartition("/")[2]: skipped.why for skipped in analysis.skipped}
    expected = {name: says for name, (_, says) in ways.items()}
    expected |= {"half written": "unfinished: there is a ledger", "a folder": "broken: cannot read"}
    assert reasons.keys() == expected.keys()
    for name, says in expected.items():
        assert says in reasons[name]
        assert reasons[name].startswith("unfinished" if says.startswith("unfinished") else "broken")


def test_code_is_read_where_it_was_not_recorded(tmp_path):
    recorded = open_run_folder(write_run(tmp_path / "a", STEPS).folder)
    read = open_run_folder(write_run(tmp_path / "b", STEPS, code=False).folder)
    assert read.code == recorded.code


def test_a_source_file_whose_name_is_no_utf8_is_read(tmp_path):
    """It ended `analyze` and `report` of all runs beside it, too."""
    recorded = open_run_folder(write_run(tmp_path / "whole", STEPS).folder)
    written = write_run(tmp_path / "odd", STEPS, code=False)
    for checkpoint in (written.folder / "checkpoints").iterdir():
        (checkpoint / os.fsdecode(b"\xff.py")).touch()
    read = open_run_folder(written.folder)
    assert not isinstance(read, Skipped) and read.code == recorded.code
    unparsed = [SourceReader()._unparsed(folder, "a test") for folder in (written.folder / "checkpoints").iterdir()]
    assert all("\\udcff.py" in code.bundle and code.model_dump_json() for code in unparsed)


def test_a_run_without_code_and_checkpoints_is_skipped(tmp_path):
    written = write_run(tmp_path / "run", STEPS, code=False)
    (written.folder / "checkpoints").rename(tmp_path / "elsewhere")
    opened = open_run_folder(written.folder)
    assert isinstance(opened, Skipped)
    assert "has neither recorded code nor a folder" in opened.reason


def test_rows_for_pandas(tmp_path):
    pandas = pytest.importorskip("pandas")
    write_run(tmp_path / "one", STEPS)
    write_run(tmp_path / "two", [], agent=None)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        rows = evopolicygym.analyze(tmp_path).rows()
    frame = pandas.DataFrame(rows).set_index("id")
    assert frame.loc["one", "heldout_mean"] == 1.0
    assert frame.loc["one", "parametric_edits"] == frame.loc["one", "parametric_hits"] == 1
    assert frame.loc["one", "episodes_to_50"] == 2
    assert frame.loc["one", "selected_lines"] == 1
    assert frame.loc["one", "refused"] == 3
    assert frame["area"].isna().tolist() == [False, True]
    assert frame["agent"].isna().tolist() == [False, True]
    assert all(isinstance(value, str | int | float | None) for row in rows for value in row.values())


def test_rows_leave_broken_runs_out(tmp_path):
    write_run(tmp_path / "one", STEPS)
    (tmp_path / "two").mkdir()
    (tmp_path / "two" / "ledger.jsonl").touch()
    analysis = evopolicygym.analyze(tmp_path)
    assert len(analysis.rows()) == 1
    assert [(Path(skip.path).name, skip.kind) for skip in analysis.skipped] == [("two", "unfinished")]


LINES = {
    "digits": '{"type": "tool_result", "output": "submit_' + "9" * 5000 + '"}',
    "number": '{"type": "assistant", "usage": {"input_tokens": ' + "9" * 5000 + "}}",
    "deep": '{"input": ' + "[" * 100_000 + "]" * 100_000 + "}",
    "rather deep": '{"input": ' + "[" * 900 + "]" * 900 + "}",
}


@pytest.mark.parametrize("line", LINES)
def test_one_line_of_a_transcript_ends_no_analysis(tmp_path, line):
    turn = {"exit_code": 0, "wall_s": 1.0, "submissions": 2, "failure": None, "stop": True, "model": None}
    for name in ("hostile", "other"):
        written = write_run(tmp_path / name, STEPS)
        written.facts["turns"] = [turn | {"usage": None, "price": None}]
        written.rewrite()
    logs = tmp_path / "hostile" / "logs" / "agent"
    logs.mkdir(parents=True)
    (logs / "turn_001.out").write_text(f'{LINES[line]}\n{{"type": "tool_result", "output": "submit_001 submit_002"}}\n')
    analysis = analyze_runs([tmp_path])
    assert not analysis.skipped and [run.summary.id for run in analysis.runs] == ["hostile", "other"]


def test_a_run_that_cannot_be_analysed_is_named_and_the_rest_is_read(tmp_path):
    folder = write_run(tmp_path / "run", STEPS).folder
    skipped = analyze_folder(folder, lambda opened: 1 / len(opened.run.turns))
    assert isinstance(skipped, Skipped) and "cannot be analysed: ZeroDivisionError" in skipped.why
    assert analyze_folder(folder, lambda opened: opened.run.id) == "run"


HOSTILE = {
    "a checkpoint elsewhere": (lambda facts: facts["submissions"][0].update(checkpoint="../../private"), "checkpoint"),
    "a number beyond all": (lambda facts: facts["submissions"][0].update(number=10**18), "number"),
    "cases beyond all": (lambda facts: facts["options"].update(heldout_cases=10**12), "heldout_cases"),
    "nothing that is a number": (lambda facts: facts.update(usage={"dollars": float("nan")}), "usage"),
    "digits without end": (lambda facts: facts.update(usage={"dollars": 10**4000}), "usage"),
    "a return too large": (lambda facts: facts["outcome"]["heldout"].update(returns=[1e300, 0.0]), "too large"),
    "half a result": (lambda facts: facts["outcome"]["heldout"].update(lengths=[]), "contradicts itself"),
    "more submissions than there are": (
        lambda facts: facts.update(
            turns=[{"exit_code": 0, "wall_s": 1.0, "submissions": 10**15, "failure": None, "stop": True, "model": None,
                    "usage": None, "price": None}]
        ),
        "turns",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", HOSTILE)
def test_numbers_and_names_are_bounded(tmp_path, name):
    written, (change, says) = write_run(tmp_path / "run", STEPS), HOSTILE[name]
    change(written.facts)
    written.rewrite()
    (skipped,) = analyze_runs([tmp_path]).skipped
    assert skipped.kind == "broken" and says in skipped.reason


def test_sizes_and_kinds_of_records_are_bounded(tmp_path):
    for name in ("sparse", "pipe", "link"):
        (tmp_path / name).mkdir()
    with open(tmp_path / "sparse" / "run.json", "wb") as file:
        file.truncate(8 << 40)
    os.mkfifo(tmp_path / "pipe" / "run.json")
    (tmp_path / "link" / "run.json").symlink_to(write_run(tmp_path / "whole", STEPS).folder / "run.json")
    reasons = {skipped.path.rpartition("/")[2]: skipped.reason for skipped in analyze_runs([tmp_path]).skipped}
    assert "larger than" in reasons["sparse"] and "not a plain file" in reasons["pipe"] and "link" in reasons["link"]
