"""Importing run folders of the public reference code: what is read, what is refused, and where the runs may stand."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import evopolicygym
from evopolicygym import files
from evopolicygym.analysis import work_limit
from evopolicygym.analysis.leaderboard.boards import boards
from evopolicygym.run_record import RunRecord, load
from evopolicygym.runs import import_runs, reference_folders
from reference_runs import first_version, third_version, write

EXAMPLES = Path(__file__).parents[2] / "examples" / "runs"
COMMAND = [sys.executable, "-m", "evopolicygym"]


def import_one(source: Path, folder: Path) -> RunRecord:
    (result,) = evopolicygym.import_runs(source, folder)
    assert result.target is not None, result.reason
    return load(result.target)


def test_run_of_the_first_version_keeps_what_it_recorded(tmp_path: Path) -> None:
    run = import_one(first_version(tmp_path / "run"), tmp_path / "imported")
    assert (run.task.id, run.agent.name if run.agent else None) == ("core16/acrobot", "codex")
    assert run.outcome is not None and run.outcome.submission == 2 and run.outcome.validation_mean == -90.5
    assert run.outcome.heldout is not None and run.outcome.heldout.mean == -90.0
    assert [made.train.mean for made in run.submissions if made.train] == [-400.0, -92.5]
    assert run.budget.remaining == 4
    assert run.imported is not None and "validation returns of each case" in run.imported.not_recorded


def test_programs_are_stored_without_the_metrics_of_the_original(tmp_path: Path) -> None:
    first_version(tmp_path / "run")
    (result,) = evopolicygym.import_runs(tmp_path / "run", tmp_path / "imported")
    assert result.target is not None
    stored = sorted(path.name for path in result.target.glob("checkpoints/*/*"))
    assert stored == ["policy.py", "policy.py"]


def test_imported_run_shares_no_board_with_ours(tmp_path: Path) -> None:
    imported = import_one(first_version(tmp_path / "run"), tmp_path / "imported")
    ours = load(EXAMPLES / "acrobot__starter__s0")
    tables = boards([imported, ours])
    assert [board.size for board in tables] == [1, 1]
    assert "imported" in " ".join(tables[1].apart)


def test_commands_read_imported_runs(tmp_path: Path) -> None:
    for number in range(2):
        first_version(tmp_path / f"runs/{number}")
        (tmp_path / f"runs/{number}/run.json").write_text(
            (tmp_path / f"runs/{number}/run.json").read_text().replace('"s0"', f'"s{number}"')
        )
    target = tmp_path / "imported"
    made = subprocess.run(
        [*COMMAND, "import", tmp_path / "runs", "--folder", target], capture_output=True, text=True, check=True
    )
    assert "2 of 2 runs imported" in made.stdout
    for words in (["leaderboard"], ["analyze"], ["report", "--output", tmp_path / "report.html"]):
        done = subprocess.run([*COMMAND, words[0], target, *words[1:]], capture_output=True, text=True, check=False)
        assert (done.returncode, "Traceback" in done.stderr) == (0, False), done.stderr
    frame = evopolicygym.load_runs(target).episodes
    assert set(frame["split"]) == {"train", "heldout"}


def test_imported_run_cannot_be_verified_or_continued(tmp_path: Path) -> None:
    (result,) = evopolicygym.import_runs(first_version(tmp_path / "run"), tmp_path / "imported")
    for words in (["verify"], ["finish"], ["run", "--resume"]):
        done = subprocess.run([*COMMAND, *words, str(result.target)], capture_output=True, text=True, check=False)
        assert done.returncode == 2
        assert "imported" in done.stderr and "Traceback" not in done.stderr


def test_repeated_import_changes_nothing(tmp_path: Path) -> None:
    source = first_version(tmp_path / "run")
    (first,) = evopolicygym.import_runs(source, tmp_path / "imported")
    (second,) = evopolicygym.import_runs(source, tmp_path / "imported")
    assert (first.target, first.is_new, second.is_new) == (second.target, True, False)


@pytest.mark.parametrize(("status", "kind"), [("no_ok_submit", "no_ok_submit"), ("error", "judge_fault")])
def test_ends_of_the_first_version(tmp_path: Path, status: str, kind: str) -> None:
    run = import_one(first_version(tmp_path / "run", status), tmp_path / "imported")
    assert run.outcome is not None and run.outcome.kind == kind


def test_run_of_the_third_version_has_means_alone(tmp_path: Path) -> None:
    (result,) = evopolicygym.import_runs(third_version(tmp_path / "run"), tmp_path / "imported")
    assert result.target is not None
    run = evopolicygym.load_run(result.target)
    assert run.record.outcome is not None and run.record.outcome.heldout is not None
    assert (run.record.outcome.heldout.mean, run.score) == (-110.0, None)
    assert run.missing is not None and "-110 is recorded, but not its returns" in run.missing


def test_run_of_the_third_version_without_an_end(tmp_path: Path) -> None:
    run = import_one(third_version(tmp_path / "run", "budget_exhausted"), tmp_path / "imported")
    assert run.outcome is not None and run.outcome.kind == "no_ok_submit"


def test_missing_parts_do_not_stop_the_import(tmp_path: Path) -> None:
    source = first_version(tmp_path / "run")
    shutil.rmtree(source / "checkpoints/submit_000")
    shutil.rmtree(source / "workspace/feedback/submit_001")
    shutil.rmtree(source / "logs")
    run = import_one(source, tmp_path / "imported")
    assert len(run.submissions) == 2 and run.agent is not None and run.agent.name == "unknown"
    done = subprocess.run([*COMMAND, "analyze", tmp_path / "imported"], capture_output=True, text=True, check=False)
    assert (done.returncode, "Traceback" in done.stderr) == (0, False), done.stderr


HOSTILE = {
    "a list": [],
    "another schema": {"schema_version": "9"},
    "an endless budget": {"experiment_dimensions": {"episode_budget": 10**12}},
    "a text as a return": {"outcome": {"status": "completed", "heldout_returns": ["x"]}},
    "an infinite return": {"outcome": {"status": "completed", "heldout_returns": [float("inf")]}},
    "a selected submission that is not there": {
        "outcome": {"status": "completed", "best_submit_index": 99, "heldout_returns": [1.0]}
    },
}


@pytest.mark.parametrize("name", HOSTILE)
def test_impossible_records_are_refused(tmp_path: Path, name: str) -> None:
    source = first_version(tmp_path / "run")
    changed = HOSTILE[name]
    record = json.loads((source / "run.json").read_text())
    write(source / "run.json", record | changed if isinstance(changed, dict) else changed)
    (result,) = evopolicygym.import_runs(source, tmp_path / "imported")
    assert result.target is None and result.reason
    assert not list(tmp_path.glob("imported/*/run.json"))


@pytest.mark.parametrize("part", ["run.json", "workspace/feedback/submit_000/summary.json"])
def test_links_are_not_followed(tmp_path: Path, part: str) -> None:
    source, secret = first_version(tmp_path / "run"), tmp_path / "secret.json"
    shutil.move(source / part, secret)
    os.symlink(secret, source / part)
    (result,) = evopolicygym.import_runs(source, tmp_path / "imported")
    assert result.target is None


def test_program_with_a_link_is_refused(tmp_path: Path) -> None:
    source = first_version(tmp_path / "run")
    os.symlink("/etc/passwd", source / "checkpoints/submit_000/data.txt")
    (result,) = evopolicygym.import_runs(source, tmp_path / "imported")
    assert result.target is None and "data.txt" in str(result.reason)


@pytest.mark.parametrize(("make", "part"), [(first_version, "checkpoints"), (third_version, "submissions")])
def test_program_behind_a_link_is_refused(tmp_path: Path, make: Callable[[Path], Path], part: str) -> None:
    """The link is not the program's folder, but one above it: it could lead to any folder of the reader."""
    source = make(tmp_path / "run")
    shutil.move(source / part, tmp_path / "secret")
    os.symlink(tmp_path / "secret", source / part)
    (result,) = evopolicygym.import_runs(source, tmp_path / "imported")
    assert result.target is None and "link" in str(result.reason)
    assert not list(tmp_path.glob("imported/*/checkpoints/*/policy.py"))


def test_broken_runs_do_not_stop_the_others(tmp_path: Path) -> None:
    first_version(tmp_path / "runs/9-good")
    metrics = first_version(tmp_path / "runs/1-metrics") / "checkpoints/submit_000/metrics.json"
    metrics.unlink()
    metrics.mkdir()
    write(metrics / "note.txt", "a folder")
    half = first_version(tmp_path / "runs/2-half", "error") / "run.json"
    write(half, half.read_text().replace("the provider is gone", "\\ud800"))
    write(third_version(tmp_path / "runs/3-deep") / "events.jsonl", "[" * 200_000)
    results = evopolicygym.import_runs(tmp_path / "runs", tmp_path / "imported")
    assert [result.target is not None for result in results] == [False, False, True, True]
    assert all(result.reason for result in results[:2])
    assert len([load(result.target) for result in results if result.target]) == 2


def test_another_score_of_the_third_version_is_another_run(tmp_path: Path) -> None:
    """Its scores are not in run.json."""
    target = tmp_path / "imported"
    assert import_one(third_version(tmp_path / "run"), target).outcome.heldout.mean == -110.0  # type: ignore[union-attr]
    write(tmp_path / "run/assessment/report.json", {"score_direction": "maximize", "score": -90.0})
    (result,) = evopolicygym.import_runs(tmp_path / "run", target)
    assert result.is_new and len(list(target.glob("*/run.json"))) == 2


def hostile_first_version(root: Path, submissions: int, summary: dict[str, object]) -> Path:
    """A run of many submissions whose feedback is one file with many names."""
    first_version(root)
    feedback = root / "workspace" / "feedback"
    shutil.rmtree(feedback)
    write(feedback / "submit_000" / "summary.json", summary)
    for number in range(1, submissions):
        (feedback / f"submit_{number:03d}").mkdir()
        os.link(feedback / "submit_000" / "summary.json", feedback / f"submit_{number:03d}" / "summary.json")
    return root


def test_one_file_of_feedback_with_many_names_is_not_read_without_end(tmp_path: Path, monkeypatch) -> None:
    """One file of 100,000 episodes can have ten thousand names: a billion episodes would be read into memory."""
    summary = {"status": "ok", "env_instances": [0] * 100_000, "returns": [1] * 100_000, "lengths": [1] * 100_000}
    read: list[str] = []
    monkeypatch.setattr(
        reference_folders, "read_json_file", lambda *given: read.append(given[1]) or files.read_json_file(*given)
    )
    run = hostile_first_version(tmp_path / "run", 40, summary)
    (result,) = evopolicygym.import_runs(run, tmp_path / "imported")
    assert result.target is None and "play more than 1000000 episodes" in (result.reason or "")
    assert sum(name.endswith("summary.json") for name in read) == 11
    assert not list((tmp_path / "imported").rglob("*"))
    monkeypatch.setattr(work_limit, "MAX_FEEDBACK_BYTES", 4_000_000)
    (result,) = evopolicygym.import_runs(run, tmp_path / "imported")
    assert "MiB of feedback" in (result.reason or "")
    assert import_one(first_version(tmp_path / "control"), tmp_path / "imported").submissions


def test_programs_without_content_do_not_fill_the_disk(tmp_path: Path, monkeypatch) -> None:
    """A sparse file takes no space in the folder that is imported, and all of its size in the copy."""
    runs = [first_version(tmp_path / "runs" / name) for name in ("a", "b")]
    (runs[1] / "run.json").write_text((runs[1] / "run.json").read_text().replace('"s0"', '"s1"'))
    for number in range(2):
        os.truncate(os.open(runs[1] / "checkpoints" / f"submit_00{number}" / "data", os.O_CREAT | os.O_WRONLY), 9 << 20)
    for limit, imported in ((8 << 30, 2), (16 << 20, 1)):
        monkeypatch.setattr(import_runs, "MAX_PROGRAM_BYTES", limit)
        results = evopolicygym.import_runs(tmp_path / "runs", tmp_path / f"imported-{limit}")
        assert [result.target is not None for result in results] == [True, imported == 2]
        assert len(list((tmp_path / f"imported-{limit}").iterdir())) == imported  # nothing is left of what is refused
    assert "import fewer at once" in (results[1].reason or "")


def test_lists_without_end_are_not_parsed(tmp_path: Path) -> None:
    first_version(tmp_path / "run")
    text = (tmp_path / "run" / "run.json").read_text()
    (tmp_path / "run" / "run.json").write_text(text.replace("{", '{"lists": [' + "[]," * 2_000_000 + "[]],", 1))
    (result,) = evopolicygym.import_runs(tmp_path / "run", tmp_path / "imported")
    assert result.target is None and "2,000,000 lists" in (result.reason or "")
