"""How well validation chose, and what runs cost."""

from __future__ import annotations

import numpy as np
import pytest
from synthetic_records import suite, synthetic_run

from evopolicygym.analysis.leaderboard.build import leaderboard
from evopolicygym.analysis.leaderboard.costs import mean_cost, pareto
from evopolicygym.analysis.leaderboard.selection import repeat_choice, selection, selections
from evopolicygym.reference.scales import scales


def test_optimism_and_regret():
    measured = synthetic_run((1.0, 2.0), validation=4.0, checkpoints=[(4.0, (1.0, 2.0)), (3.0, (5.0, 5.0))])
    result = selection(measured)
    assert (result.candidates, result.optimism, result.regret) == (2, 2.5, 3.5)


def test_regret_is_unknown_until_all_candidates_are_measured():
    half = synthetic_run((1.0, 2.0), validation=4.0, checkpoints=[(4.0, (1.0, 2.0)), (3.0, None)])
    assert selection(half).regret is None
    whole = synthetic_run((1.0, 2.0), validation=1.5, checkpoints=[(1.5, (1.0, 2.0))])
    result = selections([half, whole])
    assert (result.optimism, result.regret, result.measured, result.runs) == (1.25, 0.0, 1, 2)


def test_a_clearly_best_candidate_is_selected_whatever_the_cases():
    chosen = repeat_choice(np.array([[1.0, 2.0, 3.0, 4.0], [11.0, 12.0, 13.0, 14.0]]))
    assert (chosen.stability, set(chosen.optimism), set(chosen.gap)) == (1.0, {0.0}, {10.0})


def test_ties_go_to_the_later_candidate():
    chosen = repeat_choice(np.array([[1.0, 3.0], [3.0, 1.0]]))
    assert chosen.gap == (2.0, -2.0)
    assert chosen.optimism == (3.0 - 1.0, 1.0 - 1.0)  # without case 0 the first wins, without case 1 the second


def test_a_choice_among_candidates_with_equal_returns_is_stable():
    returns = np.random.default_rng(3).normal(size=100)
    assert {repeat_choice(np.tile(returns, (count, 1))).stability for count in range(2, 20)} == {1.0}


def test_leaving_cases_out_measures_the_optimism_of_the_selection():
    """Candidates of equal worth: the selected mean is too high by what leaving cases out finds, on average."""
    draws = np.random.default_rng(5).normal(size=(400, 20, 16))
    true = np.mean([table.mean(axis=1).max() for table in draws])
    result = np.mean([np.mean(repeat_choice(table).optimism) for table in draws])
    assert true == pytest.approx(0.467, abs=0.02)  # of the largest of 20 means of 16
    assert result == pytest.approx(true, abs=0.03)


def test_without_a_selected_checkpoint_there_is_no_selection_table():
    assert selections([synthetic_run(None, kind="no_ok_submit")]) is None


def test_costs_are_means_and_unknown_stays_unknown():
    cost = mean_cost(
        [
            synthetic_run(usage={"dollars": 1.0, "input_tokens": 10}),
            synthetic_run(usage={"dollars": 3, "input_tokens": 30}),
        ]
    )
    assert (cost.dollars, cost.input_tokens, cost.output_tokens, cost.wall_s) == (2.0, 20.0, None, 3600.0)
    assert mean_cost([synthetic_run(usage={"dollars": 1.0}), synthetic_run()]).dollars is None
    assert mean_cost([synthetic_run(usage={"dollars": "free"})]).dollars is None


def test_a_cost_that_is_a_lower_bound_is_unknown():
    """A turn was not metered: the run cost at least so much."""
    assert mean_cost([synthetic_run(usage={"dollars": 1.0, "at_least": ["dollars"]})]).dollars is None
    assert mean_cost([synthetic_run(usage={"dollars": 1.0, "at_least": ["input_tokens"]})]).dollars == 1.0


def test_the_pareto_front_keeps_undominated_entrants():
    points = {"cheap": (1.0, 0.2), "good": (9.0, 0.9), "worse": (9.0, 0.8), "twin": (1.0, 0.2), "dear": (2.0, 0.2)}
    assert pareto(points) == {"cheap", "good", "twin"}


def costs(*runs):
    (board,) = leaderboard([run for listed in runs for run in listed], [], draws=100).boards
    return {row.entrant: row for row in board.costs}


def test_the_board_has_a_cost_row_for_each_entrant():
    cheap, dear = suite({"cheap": 0.5}, 1, usage={"dollars": 0.5}), suite({"dear": 0.4}, 1, usage={"dollars": 5.0})
    result = costs(cheap, dear, suite({"dark": 0.9}, 1))
    assert result["cheap m"].score_per_dollar == pytest.approx(result["cheap m"].score.value / 0.5)
    assert (result["cheap m"].pareto, result["dear m"].pareto, result["dark m"].pareto) == (True, False, None)
    assert (result["cheap m"].front, result["dear m"].front, result["dark m"].front) == ("surely", "no", None)


def test_score_per_dollar_needs_a_score_significantly_above_0():
    result = costs(suite({"a": 0.0}, 3, usage={"dollars": 0.5}), suite({"free": 0.9}, 3, usage={"dollars": 0.0}))
    assert result["a m"].score.value != 0.0 and result["a m"].score_per_dollar is None
    assert result["free m"].score_per_dollar is None


def test_dollars_have_an_interval_over_runs():
    made = enumerate(suite({"a": 0.5}, 3))
    runs = [run.model_copy(update={"usage": {"dollars": 1.0 + number % 3}}) for number, run in made]
    (row,) = costs(runs).values()
    assert row.dollars.value == pytest.approx(2.0) and row.dollars.interval.low < 2.0 < row.dollars.interval.high
    assert costs(suite({"a": 0.5}, 1, usage={"dollars": 2.0}))["a m"].dollars.interval is None


def turned(run, submissions, dollars):
    """A run whose turns made so many submissions, together, and cost so much each."""
    turns = [
        {
            "exit_code": 0, "wall_s": 1.0, "submissions": made, "failure": None, "stop": False, "model": "m",
            "usage": {"cost_usd": cost, "fresh_input": 10, "output": 10}, "price": None,
        }
        for made, cost in zip(submissions, dollars, strict=True)
    ]  # fmt: skip
    return type(run).model_validate(run.model_dump() | {"turns": turns, "usage": {"dollars": sum(dollars)}})


def test_score_at_fixed_dollars():
    """Known at the ends of turns, 0 before the first submission, unknown within a turn that made some."""

    def made(task):
        return synthetic_run((1.0, 2.0), task, validation=0.5, submissions=1, checkpoints=[(0.5, None)])

    tasks = ("core16/door-key", "core16/four-rooms")
    early = [turned(made(task), (0, 1, 1), (0.5, 1.0, 2.0)) for task in tasks]
    (row,) = costs(early).values()
    scores = {at.amount: at.score and at.score.value for at in row.at}
    assert list(scores) == [0.1, 0.3, 1.0, 3.0]
    assert (scores[0.1], scores[1.0]) == (0.0, None)
    expected = np.mean([scales()[task].normalise(0.5) for task in tasks])
    assert scores[3.0] == pytest.approx(expected)


def test_unmetered_turns_have_no_score_at_a_cost():
    (row,) = costs(suite({"a": 0.5}, 2, usage={"dollars": 1.0})).values()
    assert row.at == ()
