"""Two entrants on the same cases."""

from __future__ import annotations

import numpy as np
import pytest
from synthetic_records import suite, synthetic_run

from evopolicygym.analysis.compare import MAX_ENTRANTS, compare, compared_entrants, holm
from evopolicygym.analysis.stats.estimates import estimate_difference
from evopolicygym.analysis.stats.power import VarianceComponents, power, runs_needed, variance_components
from evopolicygym.errors import UserError

DRAWS = 300


def pair(first, second):
    (only,) = compare(compared_entrants({"a": first, "b": second}), DRAWS)
    return only


def crossed(generator, runs, level, cases, spread=1.0):
    return level + generator.normal(0.0, spread, (runs, 1)) + cases + generator.normal(0.0, 0.5, (runs, cases.size))


def test_holm_correction_of_p_values():
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([None, 0.5, 0.9]) == [None, 1.0, 1.0]


def test_pairing_is_measured():
    cases = np.random.default_rng(0).normal(0.0, 5.0, 32)
    first = [synthetic_run(list(cases + 1.0 + 0.01 * k + noise(k))) for k in range(3)]
    second = [synthetic_run(list(cases + 0.01 * k + noise(9 + k)), agent="kimi") for k in range(3)]
    (task,) = pair(first, second).tasks
    assert task.correlation > 0.95
    assert task.pairing_gain > 20
    assert task.difference.value.interval.low > 0.0
    assert task.difference.p < 0.01
    assert task.difference.p_improvement.value == 1.0


def noise(seed):
    return np.random.default_rng(seed).normal(0.0, 0.1, 32)


def test_the_overall_difference_and_its_corrections():
    runs = suite({"one": 0.9, "two": 0.4, "three": 0.4}, 3)
    found = compare(compared_entrants({"runs": runs}), DRAWS)
    assert [(one.first, one.second) for one in found] == [
        ("one m", "three m"), ("one m", "two m"), ("three m", "two m"),
    ]  # fmt: skip
    first, _, equals = found
    assert first.overall.value.value == pytest.approx(0.5, abs=0.1)
    assert first.overall.p_holm >= first.overall.p
    assert equals.overall.p > 0.01
    assert all(task.difference.p_holm >= task.difference.p for task in first.tasks)
    assert first.normalised_tasks == 16


def test_the_same_entrant_below_two_paths_is_two_sides():
    found = pair([synthetic_run((1.0, 2.0))], [synthetic_run((3.0, 5.0))])
    assert (found.first, found.second) == ("codex m (a)", "codex m (b)")
    assert found.tasks[0].difference.scope == "cases only: one run"
    assert found.tasks[0].difference.plans is None


def test_what_cannot_be_compared_is_named():
    first = [synthetic_run(), synthetic_run(task="core16/ant"), synthetic_run(task="core16/pusher", budget=64)]
    found = pair(first, [synthetic_run(agent="kimi"), synthetic_run(task="core16/pusher", agent="kimi")])
    assert found.not_compared == {"core16/ant": "kimi m has no score", "core16/pusher": "budget: 64, not 128"}


def test_a_task_counts_once_under_the_comparable_id_with_most_runs():
    other = {"facts": {"packages": {"numpy": "1"}}}
    first = [synthetic_run((1.0, 2.0)), synthetic_run((1.0, 2.0)), synthetic_run((9.0, 9.0), **other)]
    found = pair(
        first, [synthetic_run(agent="kimi"), synthetic_run(agent="kimi"), synthetic_run(agent="kimi", **other)]
    )
    assert [one.scores for one in found.tasks] == [(1.5, 1.5)]
    assert list(found.not_compared.values()) == ["under another comparable_id there are more runs"]


def test_each_set_of_conditions_is_a_comparison_of_its_own():
    """Overall differences never mix them: two tasks under one budget, one of them under another, too."""
    first, second = (
        [
            synthetic_run((1.0, 2.0), agent=agent),
            synthetic_run((5.0, 6.0), "core16/ant", agent),
            synthetic_run((9.0, 7.0), agent=agent, budget=64),
        ]
        for agent in ("codex", "kimi")
    )
    large, small = compare(compared_entrants({"a": first, "b": second}), DRAWS)
    assert (large.conditions["budget"], small.conditions["budget"]) == (128, 64)
    assert [one.task for one in large.tasks] == ["core16/acrobot", "core16/ant"] and large.normalised_tasks == 2
    assert [one.scores for one in small.tasks] == [(8.0, 8.0)] and small.normalised_tasks == 1
    assert large.not_compared == small.not_compared == {}


def test_runs_without_a_score_are_missing():
    first, _ = compared_entrants(
        {"a": [synthetic_run(), synthetic_run(None, status="open", name="young")], "b": [synthetic_run()]}
    )
    assert list(first.missing) == ["young"] and "still running" in first.missing["young"]


def test_weak_isolation_is_said():
    first, second = compared_entrants(
        {"a": [synthetic_run(network="open"), synthetic_run(network="open")], "b": [synthetic_run(agent="kimi")]}
    )
    assert first.apart == ("the agent's network was open",)
    assert second.apart == ()


def test_the_planned_number_of_runs_has_the_planned_power():
    """Simulated: with as many runs as planned the difference is found as often as promised, with few it is not."""
    generator = np.random.default_rng(1)
    cases = generator.normal(size=400)
    seen = variance_components(crossed(generator, 400, 0.6, cases), crossed(generator, 400, 0.0, cases))
    planned = runs_needed(0.6, seen)[0].runs
    assert 0.7 < found_by(generator, planned) < 0.92
    assert found_by(generator, planned // 4) < 0.5
    assert power(0.6, seen, [planned], 32)[0] >= 0.8 > power(0.6, seen, [planned - 1], 32)[0]


def found_by(generator, runs, tries=300):
    found = 0
    for _ in range(tries):
        cases = generator.normal(size=32)
        found += (
            estimate_difference(crossed(generator, runs, 0.6, cases), crossed(generator, runs, 0.0, cases)).p_value()
            < 0.05
        )
    return found / tries


def test_more_runs_cannot_replace_missing_cases():
    few, *_, many = runs_needed(0.1, VarianceComponents(runs=0.01, cases=1.0, residual=0.0))
    assert few.runs is None
    assert runs_needed(0.3, VarianceComponents(runs=0.001, cases=1.0, residual=0.0))[-1].runs == 2
    assert many.cases == 256
    assert runs_needed(0.0, VarianceComponents(1.0, 0.0, 0.0))[0].runs is None


def test_too_many_entrants_are_refused():
    runs = [synthetic_run(agent=f"agent{number}") for number in range(MAX_ENTRANTS + 1)]
    with pytest.raises(UserError, match="51 entrants; compare takes at most 50"):
        compare(compared_entrants({"runs": runs}), DRAWS)
