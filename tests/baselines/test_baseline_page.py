"""The page and the stored rows of baselines follow from records."""

from __future__ import annotations

from pathlib import Path

import pytest

from evopolicygym.config import parse_toml
from evopolicygym.errors import UserError
from evopolicygym.reference.baselines import BaselineRun, baseline_run, dump_baselines, scores_of, stored_baselines
from evopolicygym.reference.curves import CurveRecord, load_curves, stored_curves
from evopolicygym.report.baseline_figure import baseline_figure, published_agents
from evopolicygym.report.baseline_page import baseline_page
from evopolicygym.report.svg import SLATE
from evopolicygym.run_record import load

CURVES = Path(__file__).parents[2] / "src/evopolicygym/reference/curves"
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


def test_the_figure_has_a_panel_for_each_task_and_marks_for_agents_baselines_and_curves(rows):
    curve = CurveRecord.model_validate_json((CURVES / "core16-acrobot__ars__s0.curve.json").read_bytes())
    figure = baseline_figure(published_agents(), rows, [curve])
    drawn = figure.standalone()
    assert drawn.count(f'fill="{SLATE}"') == 16 * 4 + 4 and "ars, learning curve" in drawn
    assert drawn.count("<rect") == len({(row.task, row.agent) for row in rows}) + len({row.agent for row in rows})
    assert "acrobot" in drawn and "roundabout" in drawn
    assert baseline_figure({}, [], []) is None


def test_without_records_the_page_says_so():
    assert baseline_page([], []).count("No record was given.") == 2


def test_curves_of_others_are_drawn_or_refused(rows, tmp_path):
    """Episodes beyond all plausible numbers once ended the report, and a name of megabytes filled its tables."""
    curve = next(curve for curve in stored_curves() if curve.task == "core16/acrobot")
    far = curve.model_copy(update={"points": [curve.points[0].model_copy(update={"episodes": 2**53 - 1})]})
    figure = baseline_figure({}, rows, [far])
    assert figure is not None and "1P" in figure.body
    (tmp_path / "a.curve.json").write_text(curve.model_copy(update={"algorithm": "x" * 1_000_000}).model_dump_json())
    with pytest.raises(UserError, match="is not a learning curve of version 1: algorithm"):
        load_curves([tmp_path])
