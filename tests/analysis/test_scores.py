"""What a run scores and what it does not, and the two ways to normalise."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from synthetic_records import synthetic_run

from evopolicygym.analysis.scores import paper_normalised, run_score, task_score

SCORES = st.dictionaries(st.text(max_size=3), st.floats(-1e6, 1e6), min_size=1, max_size=6)


def test_a_scored_run_counts_its_held_out_returns():
    score = run_score(synthetic_run((1.0, 5.0)))
    assert (score.returns, score.missing, score.flags) == ((1.0, 5.0), None, ())


def test_without_an_ok_submit_every_case_scores_the_failure_return():
    score = run_score(synthetic_run(None, kind="no_ok_submit", cases=3, failure_return=-7.0))
    assert score.returns == (-7.0, -7.0, -7.0)
    assert score.flags == ("no ok submit",)


def test_stopped_early_is_scored_and_flagged():
    score = run_score(synthetic_run((1.0,), stopped_early=True))
    assert score.returns == (1.0,)
    assert score.flags == ("stopped early",)


@pytest.mark.parametrize("status", ["open", "closed"])
def test_an_unfinished_run_is_missing(status):
    reason = run_score(synthetic_run(None, status=status)).missing
    assert reason.startswith(status) and "finish" in reason and "again" not in reason


def test_a_run_whose_submissions_were_all_refunded_has_no_score():
    run = synthetic_run(None, kind="no_ok_submit", submissions=2, refunded=True)
    assert run_score(run).missing == "the judge failed on every submission; to be run again"


def test_results_count_that_were_measured_before_the_judge_failed():
    run = synthetic_run((1.0, 2.0), closed_because="judge_faults", submissions=5)
    assert run_score(run).missing is None and run_score(run).returns == (1.0, 2.0)


@pytest.mark.parametrize("returns", [None, (1.0, 2.0)])
def test_a_run_that_the_judge_failed_is_missing_whatever_was_scored(returns):
    run = synthetic_run(returns, kind="judge_fault", closed_because="judge_faults", submissions=2)
    assert run_score(run).missing == "the judge failed; to be run again"


def test_a_run_whose_provider_failed_before_any_submission_is_excused():
    run = synthetic_run(None, kind="no_ok_submit", submissions=0, closed_because="provider_down")
    assert run_score(run).missing == "the agent never worked (provider_down); to be run again"
    run = synthetic_run(None, kind="agent_never_worked", submissions=0, closed_because="finished_by_hand")
    assert run_score(run).missing == "the agent never worked (finished_by_hand); to be run again"


def test_an_agent_that_never_submits_has_failed():
    run = synthetic_run(None, kind="no_ok_submit", submissions=0, closed_because="agent_exited", failure_return=-3.0)
    assert run_score(run).returns == (-3.0, -3.0)


def test_a_run_whose_provider_failed_after_a_submission_is_not_excused():
    run = synthetic_run(None, kind="no_ok_submit", submissions=1, closed_because="provider_down")
    assert run_score(run).missing is None


def test_a_score_needs_all_held_out_cases():
    assert run_score(synthetic_run((1.0, 2.0), cases=32)).missing == "2 of 32 held-out cases; to be run again"


def test_the_task_score_is_the_exact_mean_of_means():
    assert task_score([(1e16, 1.0, -1e16), (0.1,) * 3]) == (1 / 3 + math.fsum([0.1] * 3) / 3) / 2


@given(SCORES, st.floats(-1e6, 1e6))
def test_the_papers_normalised_score_lies_between_random_and_the_best(scores, random):
    normalised = paper_normalised(scores, random)
    if max(scores.values()) <= random:
        assert set(normalised.values()) == {None}
        return
    assert all(0.0 <= value <= 1.0 for value in normalised.values())
    best = max(scores, key=scores.__getitem__)
    assert normalised[best] == 1.0
    assert all(normalised[name] == 0.0 for name, score in scores.items() if score <= random)
