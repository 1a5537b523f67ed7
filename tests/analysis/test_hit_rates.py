"""Hit rates by agent and task group, and intervals that know about runs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from run_folders import Step, source, write_run

from evopolicygym.analysis.analyze import analyze_runs, summarize_entrants
from evopolicygym.analysis.stats.hit_rates import HitCount, design_effect, hit_rate, t_quantile, wilson
from evopolicygym.tasks.ids import comparable_id


@pytest.mark.parametrize(
    ("freedom", "value"), [(1, 12.7062), (2, 4.3027), (4, 2.7764), (9, 2.2622), (30, 2.0423), (1000, 1.9623)]
)
def test_quantiles_of_student(freedom, value):
    assert t_quantile(freedom) == pytest.approx(value, abs=5e-5)


def test_one_run_has_the_plain_wilson_interval():
    """Newcombe 1998, table I: 81 of 263."""
    rate = hit_rate([HitCount(263, 81)])
    assert (rate.low, rate.high) == (pytest.approx(0.2553, abs=5e-5), pytest.approx(0.3662, abs=5e-5))
    assert rate.runs == 1


def test_few_runs_have_wide_intervals():
    """Two runs that agree: no more is known of other runs than Student allows."""
    rate = hit_rate([HitCount(20, 10), HitCount(20, 10)])
    assert (rate.low, rate.high) == wilson(0.5, 40, t_quantile(1))


def test_there_is_no_hit_rate_without_edits():
    assert hit_rate([HitCount(0, 0), HitCount()]).rate is None


def test_correlated_edits_within_runs_widen_the_interval():
    """Twenty edits that are all hits in one run and none in the other are two observations, not forty."""
    assert design_effect([HitCount(20, 20), HitCount(20, 0)]) == pytest.approx(40)
    assert design_effect([HitCount(20, 10), HitCount(20, 10)]) == 1.0
    clustered, mixed = hit_rate([HitCount(20, 20), HitCount(20, 0)] * 3), hit_rate([HitCount(20, 10)] * 6)
    assert clustered.rate == mixed.rate
    assert clustered.high - clustered.low > 1.5 * (mixed.high - mixed.low)


@given(
    st.lists(st.integers(1, 30).flatmap(lambda n: st.integers(0, n).map(lambda hits: HitCount(n, hits))), min_size=1)
)
def test_an_interval_contains_its_rate(counts):
    rate = hit_rate(counts)
    assert 0 <= rate.low <= rate.rate <= rate.high <= 1
    assert (rate.n, rate.hits) == (sum(count.n for count in counts), sum(count.hits for count in counts))


def test_coverage_when_runs_differ():
    """Seeded, with known truth: runs whose own rates spread around 0.3. Plain Wilson over pooled edits covers 68 %."""
    generator = np.random.default_rng(7)
    covered = {"clustered": 0, "plain": 0}
    for _ in range(1000):
        n = generator.integers(2, 16, 10)
        hits = generator.binomial(n, generator.beta(0.7, 0.7 * 7 / 3, 10))
        rate = hit_rate([HitCount(int(a), int(b)) for a, b in zip(n, hits, strict=True)])
        low, high = wilson(rate.rate, rate.n, t_quantile(0))
        covered["clustered"] += rate.low <= 0.3 <= rate.high
        covered["plain"] += low <= 0.3 <= high
    assert covered["clustered"] > 900
    assert covered["plain"] < 800


def analysed(folder, *runs: tuple[str, str, list[Step]]):
    for number, (agent, demand, steps) in enumerate(runs):
        write_run(folder / str(number), steps, agent=agent, demand=demand)
    return {(group.agent, group.tasks): group for group in summarize_entrants(analyze_runs([folder]).runs)}


def test_groups_are_agents_and_demands(tmp_path):
    hit = [source("a = 1", validation=1), source("a = 2", validation=2), source("b = [1]", validation=3)]
    miss = [source("a = 1", validation=1), source("a = 2", validation=0), source("a = 2", validation=0)]
    rates = analysed(
        tmp_path, ("x", "tuning", hit), ("x", "tuning", miss), ("x", "synthesis", hit), ("y", "", hit), ("y", "", [])
    )
    assert rates.keys() == {("x", "synthesis"), ("x", "tuning"), ("x", "all"), ("y", "other")}
    tuning = rates["x", "tuning"]
    assert [(kind, rate.n, rate.hits, rate.runs) for kind, rate in tuning.edits.items() if rate.n] == [
        ("synthesis", 1, 1, 1),
        ("parametric", 2, 1, 2),
        ("retest", 1, 0, 1),
    ]
    assert [(size, rate.n, rate.hits) for size, rate in tuning.sizes.items() if rate.n] == [
        ("same", 1, 0),
        ("rewrite", 3, 2),
    ]
    assert (rates["x", "all"].runs, rates["x", "all"].edits["parametric"].n) == (3, 3)
    assert rates["y", "other"].runs == 2


def test_only_runs_under_the_same_conditions_are_counted_together(tmp_path):
    """The same holds for boards of a leaderboard, also where the names of conditions do not tell them apart."""
    steps = [source("a = 1", validation=1), source("a = 2", validation=2)]
    conditions: list[dict[str, Any]] = [
        {}, {}, {"variant": {"name": "disguised", "key": "k", "disguise": "d"}, "text": "blind"},
        {"variant": {"name": "shifted", "key": "k", "shift": "s"}}, {"budget": 64}, {"packages": {"numpy": "1"}},
    ]  # fmt: skip
    for number, facts in enumerate(conditions):
        run = write_run(tmp_path / str(number), steps, budget=facts.get("budget", 128))
        fingerprint = run.facts["ids"]["fingerprint"] | facts
        run.facts["ids"] |= {"fingerprint": fingerprint, "comparable_id": comparable_id(fingerprint)}
        run.facts["options"] |= {"variant": facts.get("variant", {"name": "plain"})["name"]}
        run.facts["options"] |= {"text": facts.get("text", "full")}
        run.rewrite()
    run = write_run(tmp_path / "weak", steps)
    run.facts["isolation"] |= {"publishable": False, "policy": "none"}
    run.rewrite()
    groups = summarize_entrants(analyze_runs([tmp_path]).runs)
    numbers = {group.conditions: (group.runs, group.edits["parametric"].n) for group in groups}
    assert len(groups) == len(numbers) and sorted(numbers.values()) == [(1, 1)] * 5 + [(2, 2)]
    assert {"disguised", "full text, shifted"} < numbers.keys()
    (small,) = [name for name in numbers if "budget 64" in name]
    (weak,) = [name for name in numbers if "isolation below B" in name]
    assert small.startswith("full text, ") and weak.startswith("full text, ")


def test_structure_is_averaged_over_selected_bundles(tmp_path):
    short, long = source("a = 1"), source("def f():\n    return 1\n\n\ndef g():\n    return 2\n")
    rates = analysed(tmp_path, ("x", "tuning", [short]), ("x", "tuning", [long]), ("x", "tuning", []))
    means = rates["x", "tuning"].structure
    assert (means["lines"], means["functions"], means["files"]) == (2.5, 1.0, 1.0)
