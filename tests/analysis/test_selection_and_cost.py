"""How well validation chose, and what runs cost."""

from __future__ import annotations

import numpy as np
import pytest
from synthetic_records import suite, synthetic_run

from evopolicygym.analysis.leaderboard.build import leaderboard, mean_cost, pareto, per_dollar
from evopolicygym.analysis.leaderboard.selection import repeat_choice, selection, selections


def test_optimism_and_regret():
    measured = synthetic_run((1.0, 2.0), validation=4.0, checkpoints=[(4.0, (1.0, 2.0)), (3.0, (5.0, 5.0))])
    found = selection(measured)
    assert (found.candidates, found.optimism, found.regret) == (2, 2.5, 3.5)


def test_regret_is_unknown_until_all_candidates_are_measured():
    half = synthetic_run((1.0, 2.0), validation=4.0, checkpoints=[(4.0, (1.0, 2.0)), (3.0, None)])
    assert selection(half).regret is None
    whole = synthetic_run((1.0, 2.0), validation=1.5, checkpoints=[(1.5, (1.0, 2.0))])
    found = selections([half, whole])
    assert (found.optimism, found.regret, found.measured, found.runs) == (1.25, 0.0, 1, 2)


def test_a_clear_choice_is_stable_and_owes_nothing_to_its_cases():
    chosen = repeat_choice(np.array([[1.0, 2.0, 3.0, 4.0], [11.0, 12.0, 13.0, 14.0]]))
    assert (chosen.stability, set(chosen.optimism), set(chosen.gap)) == (1.0, {0.0}, {10.0})


def test_of_equal_candidates_the_later_is_selected():
    chosen = repeat_choice(np.array([[1.0, 3.0], [3.0, 1.0]]))
    assert chosen.gap == (2.0, -2.0)
    assert chosen.optimism == (3.0 - 1.0, 1.0 - 1.0)  # without case 0 the first wins, without case 1 the second


def test_luck_of_the_choice_is_seen_by_leaving_cases_out():
    """Candidates of equal worth: the selected mean is too high by what leaving cases out finds, on average."""
    draws = np.random.default_rng(5).normal(size=(400, 20, 16))
    true = np.mean([table.mean(axis=1).max() for table in draws])
    found = np.mean([np.mean(repeat_choice(table).optimism) for table in draws])
    assert true == pytest.approx(0.467, abs=0.02)  # of the largest of 20 means of 16
    assert found == pytest.approx(true, abs=0.03)


def test_without_a_selected_checkpoint_there_is_no_selection_table():
    assert selections([synthetic_run(None, kind="no_ok_submit")]) is None


def test_costs_are_means_and_unknown_stays_unknown():
    known = mean_cost(
        [
            synthetic_run(usage={"dollars": 1.0, "input_tokens": 10}),
            synthetic_run(usage={"dollars": 3, "input_tokens": 30}),
        ]
    )
    assert (known.dollars, known.input_tokens, known.output_tokens, known.wall_s) == (2.0, 20.0, None, 3600.0)
    assert mean_cost([synthetic_run(usage={"dollars": 1.0}), synthetic_run()]).dollars is None
    assert mean_cost([synthetic_run(usage={"dollars": "free"})]).dollars is None


@pytest.mark.parametrize(("score", "dollars"), [(None, 1.0), (1.0, None), (1.0, 0.0)])
def test_score_per_dollar_needs_both(score, dollars):
    assert per_dollar(score, dollars) is None


def test_the_pareto_front_keeps_undominated_entrants():
    points = {"cheap": (1.0, 0.2), "good": (9.0, 0.9), "worse": (9.0, 0.8), "twin": (1.0, 0.2), "dear": (2.0, 0.2)}
    assert pareto(points) == {"cheap", "good", "twin"}


def test_the_board_has_a_cost_row_for_each_entrant():
    runs = suite({"cheap": 0.5}, 1, usage={"dollars": 0.5}) + suite({"dear": 0.4}, 1, usage={"dollars": 5.0})
    (board,) = leaderboard(runs + suite({"dark": 0.9}, 1), [], draws=100).boards
    found = {row.entrant: row for row in board.costs}
    assert found["cheap m"].score_per_dollar == pytest.approx(found["cheap m"].score / 0.5)
    assert (found["cheap m"].pareto, found["dear m"].pareto, found["dark m"].pareto) == (True, False, None)
