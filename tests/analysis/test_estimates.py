"""Means over runs and cases: their error, what they are about, and that intervals hold the truth."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from evopolicygym.analysis.stats.estimates import (
    average,
    contrast,
    difference_p_value,
    estimate_difference,
    estimate_score,
    score_interval,
    success_interval,
)
from evopolicygym.analysis.stats.measured import misleading_rate

MACHINES = (
    {"OPENBLAS_NUM_THREADS": "1"},
    {"OPENBLAS_NUM_THREADS": "2", "OPENBLAS_CORETYPE": "Nehalem", "NPY_DISABLE_CPU_FEATURES": "X86_V4 AVX512_ICL"},
)
PRINT_STATISTICS = """
import numpy as np
from evopolicygym.analysis.edits.timeline import record_chances
from evopolicygym.analysis.leaderboard.selection import repeat_choice
from evopolicygym.analysis.stats.estimates import correlation_by_case, estimate_difference, score_interval
for seed in range(20):
    first, second = np.random.default_rng(seed).gamma(1.0, size=(2, 5, 64))
    difference = estimate_difference(first, second)
    print(score_interval(first), difference, difference.p_value(), correlation_by_case(first, second))
    print(repeat_choice(first), record_chances(first[0].tolist()))
"""
SCRIPT = Path(__file__).parents[2] / "benchmarks" / "coverage.py"


@pytest.fixture(scope="module")
def simulation():
    spec = importlib.util.spec_from_file_location("coverage_benchmark", SCRIPT)
    sys.modules[spec.name] = module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def table(seed: int, runs: int, cases: int = 32) -> np.ndarray:
    generator = np.random.default_rng(seed)
    by_run, by_case = generator.normal(size=(runs, 1)), generator.normal(size=(1, cases))
    return 3.0 + by_run + by_case + generator.normal(size=(runs, cases))


def test_the_variance_is_that_of_the_two_way_layout():
    """Against the textbook: mean squares of runs, cases and the rest."""
    matrix = table(0, 5)
    runs, cases = matrix.shape
    mean = matrix.mean()
    of_runs = cases * ((matrix.mean(axis=1) - mean) ** 2).sum() / (runs - 1)
    of_cases = runs * ((matrix.mean(axis=0) - mean) ** 2).sum() / (cases - 1)
    whole = ((matrix - mean) ** 2).sum() - (runs - 1) * of_runs - (cases - 1) * of_cases
    rest = whole / ((runs - 1) * (cases - 1))
    variance = of_runs + of_cases - rest
    degrees = variance**2 / (of_runs**2 / (runs - 1) + of_cases**2 / (cases - 1) + rest**2 / ((runs - 1) * (cases - 1)))
    assert estimate_score(matrix).variance == pytest.approx(variance / (runs * cases))
    assert estimate_score(matrix).degrees_of_freedom == pytest.approx(degrees)


def test_one_run_gives_the_t_interval_of_its_cases_and_says_so():
    matrix = np.array([[-1.0, 0.0, 0.0, 1.0]])  # symmetric: no skewness to correct
    estimate = estimate_score(matrix)
    reach = stats.t.ppf(0.975, 3) * matrix.std(ddof=1) / 2
    assert estimate.scope == "cases only: one run"
    assert estimate.interval().high == pytest.approx(reach)
    assert estimate.interval().low == pytest.approx(-reach)
    assert estimate.p_value() is None  # how much runs differ is unknown


def test_an_interval_of_equal_returns_says_that_nothing_varied():
    estimate = estimate_score(np.zeros((3, 32)))
    assert estimate.scope == "runs and cases; nothing varied"
    assert (estimate.interval().low, estimate.interval().high) == (0.0, 0.0)
    assert estimate.p_value() == 1.0


def test_one_case_gives_the_interval_of_its_runs_and_says_so():
    estimate = estimate_score(np.array([[1.0], [2.0], [3.0]]))
    assert estimate.scope == "runs only: one case"
    assert estimate.interval().high == pytest.approx(2.0 + stats.t.ppf(0.975, 2) / np.sqrt(3))


def test_one_number_has_no_interval():
    assert estimate_score(np.array([[1.0]])).interval() is None
    assert estimate_score(np.array([[1.0]])).p_value() is None


def test_an_average_says_how_many_of_its_tasks_have_one_run():
    estimates = [estimate_score(table(seed, runs)) for seed, runs in enumerate((1, 4, 1))]
    assert average(estimates).scope == "cases only in 2 of 3 tasks: one run"


def test_intervals_follow_shift_and_scale():
    matrix = table(1, 4)
    interval, other = estimate_score(matrix).interval(), estimate_score(-2.0 * matrix + 5.0).interval()
    assert other.low == pytest.approx(-2.0 * interval.high + 5.0)
    assert other.high == pytest.approx(-2.0 * interval.low + 5.0)


def test_intervals_of_skewed_cases_are_longer_on_the_skewed_side():
    interval = estimate_score(np.array([[0.0] * 30 + [-8.0, -9.0]])).interval()
    middle = -17.0 / 32
    assert middle - interval.low > 1.05 * (interval.high - middle)


def test_paired_differences_take_the_cases_out():
    cases = np.random.default_rng(2).normal(0.0, 10.0, 32)
    first, second = np.array([cases + 1.0]), np.array([cases])
    assert estimate_difference(first, second).value == pytest.approx(1.0)
    assert estimate_difference(first, second).variance == pytest.approx(0.0, abs=1e-20)
    assert estimate_score(first).variance > 1.0


def test_unequal_numbers_of_runs_are_allowed():
    estimate = estimate_difference(table(3, 7), table(4, 2))
    assert estimate.scope == "runs and cases"
    assert estimate.interval().low < estimate.value < estimate.interval().high


@settings(max_examples=60)
@given(st.integers(0, 10_000), st.integers(2, 6), st.floats(-6.0, 6.0))
def test_p_values_and_intervals_agree(seed, runs, shift):
    estimate = estimate_score(table(seed, runs) - 3.0 + shift)
    interval = estimate.interval()
    assert (estimate.p_value() < 0.05) == (interval.low > 0.0 or interval.high < 0.0)


def test_p_values_of_runs_without_spread_are_limited_by_their_number():
    """All 0 against all 1: two runs are separated by chance in one table of eight."""
    for runs, p_value in ((2, 1 / 8), (3, 1 / 32), (5, 1 / 512)):
        assert difference_p_value(np.zeros((runs, 4)), np.ones((runs, 4))) == pytest.approx(p_value)
    assert difference_p_value(np.zeros((3, 4)), np.zeros((3, 4))) == 1.0
    assert difference_p_value(np.zeros((1, 4)), np.ones((3, 4))) is None
    assert difference_p_value(np.zeros((2, 4)), np.ones((10, 4))) == 1 / 8
    assert difference_p_value(np.ones((10, 4)), np.zeros((3, 4))) == 2.0**-12


def test_the_side_with_fewer_runs_is_taken_to_vary_like_the_other():
    """Every second run finds a trick. Three that all miss it prove nothing against ten of which five found it."""
    generator = np.random.default_rng(3)
    ten = np.array([[0.0], [1.0]] * 5) + 0.01 * generator.normal(size=(10, 32))
    three = 0.01 * generator.normal(size=(3, 32))
    for first, second in ((ten, three), (three, ten)):
        assert difference_p_value(first, second) > 0.1
        interval = estimate_difference(first, second).interval()
        assert interval.low < 0.0 < interval.high
    assert difference_p_value(ten[:3], three + 5.0) < 0.05
    assert estimate_difference(three, ten[:3]) == contrast([(1.0, three), (-1.0, ten[:3])])  # equal numbers


def test_success_rates_have_wilsons_interval():
    """Independent episodes of many runs: about the interval of scipy."""
    successes = (np.random.default_rng(0).random((40, 32)) < 0.9).astype(float)
    expected = stats.binomtest(int(successes.sum()), successes.size).proportion_ci(method="wilson")
    interval = success_interval(successes)
    assert (interval.low, interval.high) == pytest.approx((expected.low, expected.high), abs=0.01)


def test_success_rates_at_the_end_have_a_width_that_shrinks_with_runs():
    lows = [score_interval(np.ones((runs, 32))).low for runs in (2, 3, 5, 10)]
    assert lows == sorted(lows) and lows[0] < 0.5 and 0.9 < lows[-1] < 1.0


def test_other_returns_without_spread_have_no_interval():
    assert score_interval(np.full((3, 8), -7.0)) is None


def test_resampling_alone_is_too_narrow_for_few_runs(simulation):
    """Why intervals are not percentiles of the crossed bootstrap: with three runs these miss far too often."""
    setting = next(setting for setting in simulation.SETTINGS if setting.name == "runs dominate")
    generator, held = np.random.default_rng(0), []
    for _ in range(200):
        matrix = setting.returns(generator, 3)
        counts = generator.multinomial(32, np.full(32, 1 / 32), size=400)
        means = matrix @ counts.T / 32
        drawn = np.take_along_axis(means, generator.integers(3, size=(3, 400)), axis=0).mean(axis=0)
        low, high = np.quantile(drawn, [0.025, 0.975])
        held.append(low <= 0.0 <= high)
    assert np.mean(held) < 0.85
    generator = np.random.default_rng(0)
    intervals = [estimate_score(setting.returns(generator, 3)).interval() for _ in range(200)]
    assert np.mean([interval.low <= 0.0 <= interval.high for interval in intervals]) > 0.9


def test_numbers_do_not_depend_on_the_instructions_and_threads_of_a_machine():
    """On a machine with AVX-512 numpy rounds powers, roots and exponentials differently."""
    command = [sys.executable, "-W", "ignore", "-c", PRINT_STATISTICS]
    answers = [
        subprocess.run(command, env={**os.environ, **machine}, stdout=subprocess.PIPE, check=True).stdout
        for machine in MACHINES
    ]
    assert answers[0] == answers[1]
    assert answers[0].count(b"\n") == 40


@pytest.mark.parametrize(("runs", "rate"), [(3, 0.34), (5, 0.14), (10, 0.05)])
def test_two_modes_against_runs_that_are_alike_mislead_few_runs(runs, rate):
    """Tables and docs/statistics.md warn of it: every third run of one agent finds a trick, and means are equal."""
    generator = np.random.default_rng(7)
    rejections = 0
    for _ in range(500):
        tricks = (generator.random((runs, 1)) < 1 / 3) * 2.0
        noise = 0.5 * generator.normal(size=(2, runs, 32)) + 0.3 * generator.normal(size=32)
        rejections += difference_p_value(tricks + noise[0], 2 / 3 + noise[1]) < 0.05
    assert rejections / 500 == pytest.approx(rate, abs=0.06)
    assert misleading_rate("p", runs) > rejections / 500
