"""What the output says of few runs is what docs/coverage.md shows, and a small simulation agrees with it."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest

from evopolicygym.analysis.formatting import coverage_warning
from evopolicygym.analysis.stats.measured import Coverage, coverage, measurements

ROOT = Path(__file__).parents[2]
EXTREME = ("runs dominate, skewed", "rare mode, 1 in 7")
HIGHEST = {"p": 0.05, "first": 0.10, "family_p": 0.05, "tasks_p": 0.05, "tasks_sign": 0.05, "tasks_first": 0.05,
           "front": 0.05}  # fmt: skip


@pytest.fixture(scope="module")
def simulation():
    spec = importlib.util.spec_from_file_location("coverage_benchmark", ROOT / "benchmarks" / "coverage.py")
    sys.modules[spec.name] = module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def rates(table):
    """Rates in ordinary settings, by setting and runs."""
    rows = measurements()["tables"][table]
    return {(name, int(runs)): rate for name, row in rows.items() if name not in EXTREME for runs, rate in row.items()}


def test_the_pages_show_what_was_measured(simulation):
    text = (ROOT / "docs" / "coverage.md").read_text()
    for table in (*simulation.tables(measurements()["tables"]), simulation.plan_table(measurements()["plans"])):
        assert table in text
    assert simulation.extremes(measurements()) in (ROOT / "docs" / "statistics.md").read_text()


def test_planned_experiments_find_the_effect_as_often_as_promised():
    """At least 75 % where 80 % is promised, in all settings, and about as often as computed in ordinary ones."""
    plans = measurements()["plans"]
    assert min(plan["found"] for row in plans.values() for plan in row.values()) >= 0.75
    gaps = [abs(plan["found"] - plan["promised"]) for name, row in plans.items() for plan in row.values()
            if name not in EXTREME and not name.startswith("two modes")]  # fmt: skip
    assert max(gaps) <= 0.055


def test_warnings_cover_the_worst_setting():
    for tasks, table in ((1, "task"), (4, "family"), (16, "suite")):
        rates = [row["3"] for row in measurements()["tables"][table].values()]
        assert coverage(tasks, 3) == coverage(tasks, 4) == Coverage(min(rates), max(rates))
    assert coverage_warning(coverage(1, 2), 2) and not coverage_warning(coverage(16, 3), 3)


@pytest.mark.parametrize("table", sorted(HIGHEST))
def test_equal_entrants_are_rarely_told_apart(table):
    """Within three standard errors of the simulation."""
    suites = measurements()["suites"]
    for where, rate in rates(table).items():
        limit = HIGHEST[table]
        assert rate <= limit + 3 * (limit * (1 - limit) / suites) ** 0.5, where


@pytest.mark.parametrize(
    "table",
    [
        *("own", "suite", "places", "family_difference", "tasks_difference", "tasks_places", "rank_score"),
        *("tasks_improvement", "improvement", "optimality_gap", "profile", "hits"),
    ],
)
def test_what_is_printed_without_a_warning_holds(table):
    """At least 90 % with any number of runs, in all ordinary settings."""
    assert {where: rate for where, rate in rates(table).items() if rate < 0.90} == {}


@pytest.mark.parametrize(("name", "runs"), [("runs dominate", 3), ("two modes, 1 in 2", 2), ("0/1, most succeed", 3)])
def test_a_small_simulation_agrees(simulation, name, runs):
    setting = next(setting for setting in simulation.SETTINGS if setting.name == name)
    rates = simulation.measure(setting, runs, 40)
    assert rates["tasks_p"] <= 0.2 and rates["p"] <= 0.2
    assert rates["tasks_places"] >= 0.8 and rates["places"] >= 0.8 and rates["rank_score"] >= 0.8


def test_one_run_of_each_is_tested_over_tasks_alone(simulation):
    rates = simulation.measure(simulation.SETTINGS[2], 1, 60)
    assert rates["tasks_p"] <= 0.2 and rates["tasks_places"] >= 0.8
    assert not {"p", "first", "improvement", "tasks_first"} & set(rates)
