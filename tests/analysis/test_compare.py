"""Two entrants on the same cases."""

from __future__ import annotations

import time
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats
from synthetic_records import named_sides, suite, synthetic_run

from evopolicygym.analysis.compare import MAX_ENTRANTS, compare, shared_tasks
from evopolicygym.analysis.stats.estimates import ONE_RUN, difference_p_value
from evopolicygym.analysis.stats.measured import coverage, difference_coverage, misleading_rate
from evopolicygym.analysis.stats.multiple_testing import holm
from evopolicygym.analysis.stats.power import (
    DifferenceVariance,
    SideVariance,
    difference_variance,
    power,
    power_over_tasks,
    runs_needed,
    tasks_needed,
)
from evopolicygym.errors import UserError
from evopolicygym.reference import paper


def pair(first, second):
    (only,) = compare(named_sides({"a": first, "b": second}))
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
    assert task.difference.p == 1 / 32  # as little as three runs of each can show
    number = task.difference.p_improvement
    assert number.value == 1.0 and number.interval.low < 0.7


def noise(seed):
    return np.random.default_rng(seed).normal(0.0, 0.1, 32)


def test_the_overall_difference_and_its_corrections():
    runs = suite({"one": 0.9, "two": 0.4, "three": 0.4}, 3)
    pairs = compare(named_sides({"runs": runs}))
    assert [(pair.first, pair.second) for pair in pairs] == [
        ("one m", "three m"), ("one m", "two m"), ("three m", "two m"),
    ]  # fmt: skip
    first, _, equals = pairs
    assert first.overall.test.difference.value == pytest.approx(0.5, abs=0.1)
    assert first.overall.test.won == 16 and first.overall.p_holm < 0.001
    assert equals.overall.test.p > 0.01
    assert first.normalised_tasks == 16


def test_tasks_are_corrected_over_all_pairs_and_pairs_over_all_pairs():
    pairs = compare(named_sides({"runs": suite({"one": 0.9, "two": 0.4, "three": 0.4}, 3)}))
    differences = [task.difference for pair in pairs for task in pair.tasks]
    assert [difference.p_holm for difference in differences] == holm([difference.p for difference in differences])
    assert [pair.overall.p_holm for pair in pairs] == holm([pair.overall.test.p for pair in pairs])
    assert (pairs[0].tests, pairs[0].pairs) == (48, 3)


def test_one_run_of_each_is_compared_over_tasks_alone():
    (comparison,) = compare(named_sides({"runs": suite({"one": 0.9, "two": 0.4}, 1)}))
    assert comparison.tests == 0 and comparison.overall.test.p < 0.001
    assert comparison.overall.p_improvement is None and comparison.overall.plan.tasks >= 2
    for task in comparison.tasks:
        difference = task.difference
        assert difference.scope == ONE_RUN
        assert (difference.p, difference.p_improvement, difference.plan, difference.value.interval) == (None,) * 4


def test_runs_of_a_separate_board_are_left_out_and_named():
    """An open network, or no isolation: never in one table with other runs of the same entrant."""
    first = [synthetic_run((1.0, 2.0)), synthetic_run((9.0, 9.0), network="open")]
    comparison = pair(first, [synthetic_run((3.0, 4.0), agent="kimi")])
    assert [task.scores for task in comparison.tasks] == [(1.5, 3.5)]
    (reason,) = comparison.not_compared.values()
    assert reason == "the agent's network was open"
    first += [synthetic_run((8.0, 8.0), publishable=False), synthetic_run((7.0, 7.0), options={"text": "full"})]
    comparison = pair(first, [synthetic_run((3.0, 4.0), agent="kimi")])
    assert [task.scores for task in comparison.tasks] == [(1.5, 3.5)]
    assert sorted(comparison.not_compared.values()) == [
        "text: full, not brief",
        "the agent's network was open, and as many: isolation below B (policy none, agent A)",
    ]
    apart = pair([synthetic_run(publishable=False)], [synthetic_run(agent="kimi")])
    assert not apart.tasks and "isolation below B" in apart.not_compared["core16/acrobot"]


@pytest.mark.parametrize("effect", [0.0, -1.0, float("nan"), float("inf")])
def test_an_effect_of_interest_is_a_positive_number(effect):
    with pytest.raises(UserError, match="smallest difference of interest"):
        compare(named_sides({"a": [synthetic_run()], "b": [synthetic_run(agent="kimi")]}), effect)


def test_the_same_entrant_below_two_paths_is_two_sides():
    comparison = pair([synthetic_run((1.0, 2.0))], [synthetic_run((3.0, 5.0))])
    assert (comparison.first, comparison.second) == ("codex m (a)", "codex m (b)")
    assert comparison.tasks[0].difference.scope == ONE_RUN
    assert comparison.tasks[0].difference.plan is None


def test_what_cannot_be_compared_is_named():
    first = [synthetic_run(), synthetic_run(task="core16/ant"), synthetic_run(task="core16/pusher", budget=64)]
    comparison = pair(first, [synthetic_run(agent="kimi"), synthetic_run(task="core16/pusher", agent="kimi")])
    assert comparison.not_compared == {"core16/ant": "kimi m has no score", "core16/pusher": "budget: 64, not 128"}


def test_a_task_counts_once_under_the_comparable_id_with_most_runs():
    other = {"facts": {"packages": {"numpy": "1"}}}
    first = [synthetic_run((1.0, 2.0)), synthetic_run((1.0, 2.0)), synthetic_run((9.0, 9.0), **other)]
    comparison = pair(
        first, [synthetic_run(agent="kimi"), synthetic_run(agent="kimi"), synthetic_run(agent="kimi", **other)]
    )
    assert [task.scores for task in comparison.tasks] == [(1.5, 1.5)]
    assert list(comparison.not_compared.values()) == ["under another comparable_id there are more runs"]


def test_a_comparison_is_no_patchwork_of_simulator_versions():
    """Both entrants have all tasks under two versions, with as many runs."""
    old = {task: {"packages": {"numpy": "1"}} for task in paper.core16()}
    first, second = (suite({agent: 0.5}, 2) + suite({agent: 0.5}, 2, facts=old) for agent in "ab")
    comparison = pair(first, second)
    ids = {run.ids.comparable_id: run.ids.fingerprint["packages"]["numpy"] for run in first}
    assert len({ids[task.comparable_id] for task in comparison.tasks}) == 1 and len(comparison.tasks) == 16


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
    large, small = compare(named_sides({"a": first, "b": second}))
    assert (large.conditions["budget"], small.conditions["budget"]) == (128, 64)
    assert [shared.task for shared in large.tasks] == ["core16/acrobot", "core16/ant"] and large.normalised_tasks == 2
    assert [shared.scores for shared in small.tasks] == [(8.0, 8.0)] and small.normalised_tasks == 1
    assert large.not_compared == small.not_compared == {}


def test_runs_without_a_score_are_missing():
    first, _ = named_sides(
        {"a": [synthetic_run(), synthetic_run(None, status="open", name="young")], "b": [synthetic_run()]}
    )
    assert list(first.missing) == ["young"] and "still running" in first.missing["young"]


def test_weak_isolation_is_named():
    first, second = named_sides(
        {"a": [synthetic_run(network="open"), synthetic_run(network="open")], "b": [synthetic_run(agent="kimi")]}
    )
    assert first.apart == ("the agent's network was open",)
    assert second.apart == ()


def planned(first, second, cases=0.0, residual=0.5):
    """Variances of an entrant with these deviations between runs, each estimated from five runs."""
    sides = [SideVariance(deviation**2, residual**2, 4) for deviation in (first, second)]
    return DifferenceVariance(*sides, cases**2)


@pytest.mark.parametrize(("deviations", "effect"), [((1.0, 1.0), 1.2), ((1.0, 0.05), 1.2), ((0.3, 0.3), 0.6)])
def test_the_planned_number_of_runs_has_the_promised_power(deviations, effect):
    """Simulated with the test that is printed, also where one side is noisy and the other is not."""
    plan = runs_needed(effect, planned(*deviations), 32)
    promised = power(effect, planned(*deviations), plan.runs, 32)
    assert promised >= 0.8 > power(effect, planned(*deviations), plan.runs - 1, 32)
    assert plan.low <= plan.runs <= plan.high
    assert found_by(deviations, effect, plan.runs) == pytest.approx(promised, abs=0.1)


def found_by(deviations, effect, runs, tries=300):
    generator, rejections = np.random.default_rng(runs), 0
    for _ in range(tries):
        cases = generator.normal(size=32)
        first, second = (crossed(generator, runs, 0.0, cases, spread) for spread in deviations)
        rejections += difference_p_value(first + effect, second) < 0.05
    return rejections / tries


def test_two_runs_are_never_planned():
    """They cannot give p < 0.05."""
    assert power(100.0, planned(0.1, 0.1), 2, 32) == 0.0
    assert runs_needed(100.0, planned(0.1, 0.1), 32).low == 3


def test_variances_are_estimated_for_each_side():
    generator = np.random.default_rng(1)
    cases = generator.normal(size=400)
    seen = difference_variance(crossed(generator, 300, 0.0, cases, 2.0), crossed(generator, 300, 0.0, cases, 0.5))
    assert seen.first.runs == pytest.approx(4.0, rel=0.2) and seen.second.runs == pytest.approx(0.25, rel=0.2)
    assert seen.first.residual == pytest.approx(0.25, rel=0.05) and seen.cases == pytest.approx(0.0, abs=0.01)


def test_no_number_of_runs_makes_up_for_too_few_cases():
    assert runs_needed(0.1, planned(0.1, 0.0, cases=1.0, residual=0.0), 32).low is None
    assert runs_needed(0.3, planned(0.03, 0.0, cases=1.0, residual=0.0), 256).runs == 3


def test_the_planned_number_of_tasks_has_the_promised_power():
    generator = np.random.default_rng(2)
    differences = generator.normal(0.0, 1.0, 2000)
    plan = tasks_needed(0.5, list(differences))
    assert plan.low <= plan.tasks <= plan.high
    rejected = [stats.ttest_1samp(generator.normal(0.5, 1.0, plan.tasks), 0.0).pvalue < 0.05 for _ in range(600)]
    assert np.mean(rejected) == pytest.approx(power_over_tasks(0.5, 1.0, plan.tasks), abs=0.06)
    assert tasks_needed(0.5, [1.0]) is None


def test_too_many_entrants_are_refused():
    runs = [synthetic_run(agent=f"agent{number}") for number in range(MAX_ENTRANTS + 1)]
    with pytest.raises(UserError, match="51 entrants; compare takes at most 50"):
        compare(named_sides({"runs": runs}))


def test_runs_that_do_not_differ_plan_nothing():
    """Two runs that all fail against two that all succeed: nothing says that a third would do the same."""
    runs = [synthetic_run([value] * 8, "core16/door-key", agent) for agent, value in (("a", 0.0), ("b", 1.0)) * 2]
    (pair,) = compare(named_sides({"x": runs}))
    assert pair.tasks[0].difference.plan is None


def test_a_difference_is_no_surer_than_a_score():
    """An entrant of two modes against one whose runs are all alike: three runs in a row often show one mode."""
    assert difference_coverage(3).low <= coverage(1, 3).low < 0.9
    assert difference_coverage(1) is None


def test_a_p_value_below_5_percent_from_few_runs_says_how_often_equal_means_give_it():
    """Where the number is printed, not only in the docs."""
    apart = pair(suite({"a": 0.9}, 3, seed=1), suite({"b": 0.1}, 3, seed=2)).tasks[0].difference
    assert apart.p < 0.05 and apart.misleading == misleading_rate("p", 3) > 0.3
    close = pair(suite({"a": 0.5}, 3, seed=1), suite({"b": 0.5}, 3, seed=2)).tasks[0].difference
    assert close.p > 0.05 and close.misleading is None
    assert misleading_rate("p", 2) is None  # two runs never give it


def test_runs_that_selected_one_policy_are_counted():
    runs = [synthetic_run(list(noise(k)), agent=agent) for k, agent in enumerate("aabb")]
    (task,) = compare(named_sides({"x": runs}))[0].tasks
    assert (task.runs, task.policies) == ((2, 2), (1, 1))


def test_too_many_comparisons_are_refused(monkeypatch):
    """A folder of ten thousand small records would take gigabytes: every pair of entrants is compared on every task."""
    runs = [synthetic_run(task=f"own/t{task}", agent=f"a{agent}") for task in range(4) for agent in range(5)]
    monkeypatch.setattr("evopolicygym.analysis.work_limit.MAX_TASK_COMPARISONS", 40)
    assert len(compare(named_sides({"x": runs}))) == 10  # control: 10 pairs on 4 tasks
    with pytest.raises(UserError, match="the entrants on their tasks are 44 comparisons; compare takes at most 40"):
        compare(named_sides({"x": [*runs, synthetic_run(task="own/other", agent="a0")]}))


def test_tasks_of_one_side_alone_take_no_square_of_time():
    example = named_sides({"x": [synthetic_run(agent="a"), synthetic_run(agent="b")]})
    (runs,) = example[0].runs.values()
    sides = [
        replace(side, runs={(f"own/{side.label}{number:05}", "c-0", ()): runs for number in range(10_000)})
        for side in example
    ]
    began = time.process_time()
    _, reasons = shared_tasks(*sides)
    assert time.process_time() - began < 3.0
    assert len(reasons) == 20_000 and reasons["own/a m00000"] == "b m has no score"
