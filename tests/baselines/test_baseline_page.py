"""The page and the stored rows of baselines follow from records."""

from __future__ import annotations

from pathlib import Path

import pytest

from evopolicygym.config import parse_toml
from evopolicygym.reference.baselines import BaselineRun, baseline_run, dump_baselines, scores_of, stored_baselines
from evopolicygym.report.baseline_page import baseline_page
from evopolicygym.run_record import load

EXAMPLES = Path(__file__).parents[2] / "examples" / "runs"


@pytest.fixture(scope="module")
def rows():
    return [baseline_run(load(path)) for path in sorted(EXAMPLES.rglob("run.json"))]


def test_rows_survive_the_file(rows):
    assert rows
    read = [BaselineRun.model_validate(row) for row in parse_toml(dump_baselines(rows))["runs"]]
    assert sorted(read, key=repr) == sorted(rows, key=repr)


def test_the_page_has_the_mean_of_every_task_and_agent(rows):
    page = baseline_page(rows, [])
    for row in rows:
        assert any(row.task in line for line in page.splitlines()) and f"`{row.agent}`" in page
    first = rows[0]
    twice = [first, first.model_copy(update={"seed": first.seed + 1, "score": (first.score or 0.0) + 2.0})]
    assert scores_of(twice, first.task, first.agent) == [first.score, (first.score or 0.0) + 2.0]
    assert "± 1.414" in baseline_page(twice, [])


def test_the_stored_rows_are_on_the_cases_of_the_paper():
    assert all(row.splits_id == "paper" for row in stored_baselines())


def test_without_records_the_page_says_so():
    assert baseline_page([], []).count("No record was given.") == 2
