"""Runs on disk as objects and as tidy tables."""

from __future__ import annotations

import json
import shutil
import tracemalloc
from pathlib import Path

import pandas
import pytest

import evopolicygym
from evopolicygym import UserError
from evopolicygym.analysis.entrants import run_author
from evopolicygym.analysis.scores import run_score

SAMPLE = Path(__file__).parents[2] / "examples/runs"


@pytest.fixture(scope="module")
def runs() -> evopolicygym.Runs:
    return evopolicygym.load_runs(SAMPLE)


def test_one_row_per_run_with_the_score_of_the_leaderboard(runs):
    frame = runs.runs.set_index("folder")
    assert len(frame) == len(runs) == 12
    assert list(frame.index) == [str(run.folder) for run in runs]
    board = evopolicygym.leaderboard(runs).boards[0]
    for table in board.tasks:
        rows = {row.entrant: row for row in table.rows}
        for entrant, mine in frame[frame["task"] == table.task].groupby("entrant"):
            assert mine["score"].mean() == pytest.approx(rows[entrant].score, abs=1e-12)
            assert mine["normalised"].mean() == pytest.approx(rows[entrant].normalised, abs=1e-12)
    assert set(frame["isolation_agent"]) <= {"A", "B"} and frame["publishable"].all()
    assert set(frame["splits_id"]) == {"paper"} and frame["cost_usd"].isna().all()


def test_every_table_has_the_conditions_of_its_run(runs):
    names = ["text", "variant", "own_models", "feedback"]
    for table in (runs.runs, runs.submissions, runs.episodes):
        rows = table.drop_duplicates("folder").set_index("folder")[names]
        assert rows.loc[[str(run.folder) for run in runs]].to_numpy().tolist() == [
            [getattr(run.record.options, name) for name in names] for run in runs
        ]


def test_episodes_add_up_to_everything_else(runs):
    """Per-case returns: held-out to scores, validation and train to means of submissions."""
    episodes, submissions = runs.episodes, runs.submissions
    assert set(episodes["split"]) == {"train", "validation", "heldout"}
    scores = episodes[(episodes["split"] == "heldout") & episodes["selected"]].groupby("run")["return"].mean()
    for run in runs:
        assert scores[run.id] == pytest.approx(run.score, abs=1e-9)
    train = episodes[episodes["split"] == "train"].groupby(["run", "submission"])
    scored = submissions[submissions["verdict"] == "ok"].set_index(["run", "submission"])
    pandas.testing.assert_series_equal(
        train["return"].mean().sort_index(), scored["train_mean"].sort_index(), check_names=False
    )
    assert train["case"].count().sort_index().tolist() == scored["episodes"].sort_index().tolist()
    assert submissions.groupby("run")["selected"].sum().eq(1).all()


def test_a_single_run_has_the_same_tables(runs):
    run = evopolicygym.load_run(runs[3].folder / "run.json")
    assert run == runs[3] and run.folder == runs[3].folder
    mine = runs.episodes[runs.episodes["run"] == run.id].reset_index(drop=True)
    pandas.testing.assert_frame_equal(run.episodes, mine)
    assert len(run.submissions) == len(run.record.submissions)


def test_a_run_without_a_scored_submission_counts_the_failure_return(tmp_path):
    run = evopolicygym.run("core16/mountain-car-continuous", "nop", folder=tmp_path / "run", seeds="paper", budget=1)
    assert (run.outcome, run.score) == ("no_ok_submit", run.record.task.failure_return)
    frame = evopolicygym.load_runs(tmp_path).runs
    assert frame["score"].tolist() == [run.score] and frame["missing"].tolist() == [None]
    assert run.episodes.empty and list(run.episodes) == list(evopolicygym.load_runs(SAMPLE).episodes)


def test_unfinished_and_broken_runs(tmp_path):
    """An unfinished one is there without a score; a broken one is left out, with a warning at the caller's line."""
    for name in ("whole", "open", "broken"):
        (tmp_path / name).mkdir()
        shutil.copy(sorted(SAMPLE.glob("*/run.json"))[0], tmp_path / name)
    record = json.loads((tmp_path / "open/run.json").read_text())
    another = {"id": "another", "ledger_head": "a" * 64, "status": "open", "outcome": None}
    (tmp_path / "open/run.json").write_text(json.dumps(record | another))
    (tmp_path / "broken/run.json").write_text(json.dumps(record | {"submissions": "many"}))
    with pytest.warns(UserWarning, match=r"broken is left out: broken: .*submissions") as caught:
        runs = evopolicygym.load_runs(str(tmp_path))
    assert caught[0].filename == __file__
    assert [run.folder.name for run in runs] == ["open", "whole"]
    assert runs.runs["score"].isna().tolist() == [True, False] and runs[0].missing.startswith("open:")
    assert [Path(skip.path).name for skip in runs.skipped] == ["broken"]
    with pytest.raises(UserError, match="submissions"):
        evopolicygym.load_run(tmp_path / "broken")


def test_nothing_to_load_is_an_error(tmp_path):
    for path in (tmp_path, tmp_path / "nowhere"):
        with pytest.raises(UserError):
            evopolicygym.load_runs(path)
        with pytest.raises(UserError):
            evopolicygym.load_run(path)


def test_a_folder_of_runs_is_not_one_run(tmp_path):
    with pytest.raises(UserError, match=r"there are runs below it\nLoad them with load_runs\('.*examples/runs'\)"):
        evopolicygym.load_run(SAMPLE)
    (tmp_path / "ledger.jsonl").touch()
    with pytest.raises(UserError, match="cannot read"):
        evopolicygym.load_run(tmp_path)


def test_functions_accept_runs_as_paths_lists_and_collections(runs):
    tuner = [run for run in runs if run.agent == "tuner"]
    starter = [run for run in runs if run.agent == "starter"]
    compared = evopolicygym.compare(tuner, starter)
    assert [len(side.runs) for side in compared.sides] == [2, 2] and len(compared.pairs) == 1
    same = evopolicygym.compare(*(tuner, starter))
    assert same.as_dict() == compared.as_dict() and json.dumps(same.as_dict())
    by_path, by_runs = evopolicygym.analyze(tuner[0].folder), evopolicygym.analyze([tuner[0]])
    assert by_path.as_dict() == by_runs.as_dict()
    assert len(evopolicygym.analyze(runs).runs) == len(evopolicygym.analyze([SAMPLE]).runs) == 12
    with pytest.raises(UserError, match="compare needs two sides"):
        evopolicygym.compare(tuner)
    with pytest.raises(UserError, match="is not a run"):
        evopolicygym.leaderboard([1])


def test_scores_are_those_of_the_rules(runs):
    assert all(run.returns == run_score(run.record).returns for run in runs)
    assert (
        "score=" in repr(runs[0])
        and "conditions='full text'" in repr(runs[0])
        and "12 runs" in repr(runs)
        and len(runs[:3]) == 3
    )


def test_a_long_setting_is_kept_once_and_not_for_each_row(tmp_path):
    """A record from elsewhere: 1 MB of settings, 300 submissions."""
    record = json.loads(sorted(SAMPLE.glob("*tuner*/run.json"))[0].read_text())
    record["agent"]["settings"] = {"a": "x" * 1_000_000}
    record["turns"] = []
    first = record["submissions"][0] | {"cases": [0], "charged": 0, "checkpoint": record["outcome"]["checkpoint"]}
    first["train"] = {"returns": [0], "lengths": [0], "errors": [None], "mean": 0, "std": 0}
    record["submissions"] = [first | {"number": number} for number in range(1, 301)]
    record["checkpoints"] = [run for run in record["checkpoints"] if run["hash"] == first["checkpoint"]]
    (tmp_path / "run.json").write_text(json.dumps(record))
    runs = evopolicygym.load_run(tmp_path)
    tracemalloc.start()
    try:
        assert len(runs.submissions) == 300 and len(runs.episodes) >= 300
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 20_000_000
    entrant = runs.submissions["entrant"][0]
    assert len(entrant) < 1100 and set(runs.episodes["entrant"]) == {entrant}
    record["agent"]["settings"]["a"] += "y"
    (tmp_path / "run.json").write_text(json.dumps(record))
    before, after = run_author(runs.record), run_author(evopolicygym.load_run(tmp_path).record)
    assert before.identity != after.identity and len(str(after)) < 1000


def test_names_in_records_of_others_cannot_write_to_the_terminal(tmp_path):
    """Neither a key of run.json nor the name of a folder."""
    record = json.loads(sorted(SAMPLE.glob("*/run.json"))[0].read_text())
    for name, content in (("ok", record), ("key", record | {"\x1b]0;x\x07\nfake": 1}), ("folder\x1b[31m\nfake", {})):
        (tmp_path / name).mkdir()
        (tmp_path / name / "run.json").write_text(json.dumps(content))
    with pytest.warns(UserWarning, match="is left out") as caught:
        evopolicygym.load_runs(tmp_path)
    texts = [str(warning.message) for warning in caught]
    for name in ("key", "folder\x1b[31m\nfake"):
        with pytest.raises(UserError) as refused:
            evopolicygym.load_run(tmp_path / name)
        texts.append(str(refused.value))
    assert len(texts) == 4 and all("\\x1b" in text and text.isprintable() for text in texts)
