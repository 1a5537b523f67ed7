"""What the feedback was worth: gains, learning curves and the knowledge gap, on records with known answers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from scipy import stats
from synthetic_records import OPENED, named, result, synthetic_run

from evopolicygym.analysis.gain import (
    EntrantGain,
    curve_means,
    entrant_gain,
    gain_columns,
    gain_difference,
    learning_curve,
    run_gain,
)
from evopolicygym.analysis.knowledge_gap import knowledge_gaps
from evopolicygym.analysis.leaderboard.build import leaderboard
from evopolicygym.analysis.leaderboard.text_tables import (
    feedback_table,
    knowledge_gap_table,
    task_scores_table,
    unchanged_runs,
)
from evopolicygym.analysis.stats.estimates import ONE_RUN, Interval, Number
from evopolicygym.record_checks import contradiction, fingerprint_id
from evopolicygym.reference.scales import scales
from evopolicygym.run_record import RunRecord

TASK = "core16/acrobot"
SCALE = scales()[TASK]
LOW, UNIT = SCALE.low, SCALE.unit


@dataclass(frozen=True)
class Made:
    """One submission: its checkpoint, its validation and held-out returns, how many episodes it asked for."""

    checkpoint: str
    validation: Sequence[float] | None = None
    heldout: Sequence[float] | None = None
    episodes: int = 8
    verdict: str | None = "ok"
    length: int = 10


def run_of(*made: Made, selected: int | None = None, budget: int = 128, **more: Any) -> RunRecord:
    """Return a finished run with these submissions; ``selected`` is the number of one."""
    winner = made[selected - 1] if selected else None
    record = synthetic_run(winner.heldout if winner else None, kind="scored" if winner else "no_ok_submit",
                           budget=budget, cases=4, **more).model_dump()  # fmt: skip
    record["submissions"] = [_submission(number, submission) for number, submission in enumerate(made, 1)]
    record["checkpoints"] = [
        {"hash": submission.checkpoint * 64, "files": 1, "bytes": 1, "code": None,
         "validation": result(submission.validation) if submission.validation is not None else None,
         "heldout": result(submission.heldout) if submission.heldout is not None else None}
        for submission in {submission.checkpoint: submission for submission in made}.values()
    ]  # fmt: skip
    record["options"]["validation_cases"] = record["ids"]["fingerprint"]["validation_cases"] = 2
    if winner:
        assert winner.validation is not None
        record["outcome"] |= {"submission": selected, "checkpoint": winner.checkpoint * 64,
                              "validation_mean": float(np.mean(winner.validation))}  # fmt: skip
    return RunRecord.model_validate(record)


def _submission(number: int, made: Made) -> dict[str, Any]:
    train = result([0.0] * made.episodes) | {"lengths": [made.length] * made.episodes}
    return {
        "number": number, "checkpoint": made.checkpoint * 64, "cases": list(range(made.episodes)),
        "charged": made.episodes if made.verdict else 0, "charged_at": OPENED, "judged_at": OPENED,
        "verdict": made.verdict, "refunded": made.verdict is None,
        "train": train if made.verdict == "ok" else None, "clipped_actions": 0, "wall_s": 1.0,
    }  # fmt: skip


BAD = Made("b", (-400.0, -420.0), (-400.0, -500.0, -410.0, -430.0))
GOOD = Made("a", (-60.0, -58.0), (-50.0, -70.0, -60.0, -56.0))
BROKEN = Made("c", verdict="import_error", episodes=4)
REFUNDED = Made("d", verdict=None)


def test_the_gain_is_selected_minus_first():
    gain = run_gain(run_of(BROKEN, BAD, GOOD, selected=3))
    assert gain.submission == 2 and gain.unchanged is False
    assert gain.validation and (gain.validation.first, gain.validation.selected) == (-410.0, -59.0)
    heldout = gain.heldout
    assert heldout and (heldout.first, heldout.selected, heldout.gain.value) == (-435.0, -59.0, 376.0)
    assert heldout.normalised == pytest.approx(376.0 / UNIT)
    assert heldout.share == pytest.approx(376.0 / (-59.0 - LOW))


def test_the_interval_is_of_the_differences_by_case():
    """With differences that are not skewed it is Student's t interval; unpaired it would be far wider."""
    first = Made("b", (0.0, 0.0), (0.0, 100.0, 200.0, 300.0))
    selected = Made("a", (1.0, 1.0), (10.0, 112.0, 208.0, 310.0))
    gain = run_gain(run_of(first, selected, selected=2)).heldout
    assert gain and gain.gain.interval
    reach = stats.t.ppf(0.975, 3) * np.std([10, 12, 8, 10], ddof=1) / 2
    assert (gain.gain.interval.low, gain.gain.interval.high) == pytest.approx((10 - reach, 10 + reach))


def test_a_first_submission_that_is_selected_gained_nothing():
    """Also in records from before the first submission was measured: the result is that of the outcome."""
    again = Made("a", GOOD.validation, None)
    record = run_of(again, BAD, selected=None).model_dump()
    winner = run_of(GOOD, selected=1)
    record |= {"outcome": winner.outcome, "checkpoints": record["checkpoints"]}
    gain = run_gain(RunRecord.model_validate(record))
    assert gain.heldout and gain.heldout.gain.value == 0.0 and gain.heldout.gain.interval is None
    assert gain.heldout.share == 0.0 and gain.unchanged is False


def test_the_gain_is_missing_where_the_first_submission_was_not_measured():
    unmeasured = Made("b", BAD.validation, None)
    gain = run_gain(run_of(unmeasured, GOOD, selected=2))
    assert gain.heldout is None and gain.validation and gain.validation.gain.value == 351.0
    superseded = run_gain(run_of(Made("b", None, BAD.heldout), GOOD, selected=2))
    assert superseded.validation is None and superseded.heldout and superseded.heldout.gain.value == 376.0
    nothing = run_gain(run_of(BROKEN))
    assert (nothing.submission, nothing.validation, nothing.heldout, nothing.unchanged) == (None, None, None, None)


@pytest.mark.parametrize(
    ("made", "unchanged"),
    [
        ((GOOD,), True),
        ((GOOD, GOOD, GOOD), True),
        ((BROKEN, GOOD, GOOD), True),
        ((GOOD, REFUNDED, GOOD), True),
        ((GOOD, BROKEN), False),
        ((GOOD, BAD, GOOD), False),
    ],
)
def test_runs_that_never_changed_their_policy(made, unchanged):
    number = next(i for i, submission in enumerate(made, 1) if submission is GOOD)
    assert run_gain(run_of(*made, selected=number)).unchanged is unchanged


def test_a_selected_submission_below_the_random_policy_has_no_share():
    worse = Made("a", (LOW - 1.0,) * 2, (LOW - 1.0,) * 4)
    gain = run_gain(run_of(Made("b", (LOW - 3.0,) * 2, (LOW - 3.0,) * 4), worse, selected=2)).heldout
    assert gain and gain.share is None and gain.gain.value == pytest.approx(2.0)
    assert gain.gain.interval is None  # equal differences on four cases are no proof


def test_a_selected_submission_at_the_lower_end_has_no_share():
    """Up to rounding: the quotient of a large gain and a tiny number is no number."""
    assert LOW + 1e-12 > LOW
    tiny = Made("a", (LOW + 1e-12,) * 2, (LOW + 1e-12,) * 4)
    gain = run_gain(run_of(Made("b", (LOW - 3.0,) * 2, (LOW - 3.0,) * 4), tiny, selected=2)).heldout
    assert gain and gain.share is None


def test_a_learning_curve_from_zero():
    half, best = LOW + UNIT / 2, LOW + UNIT
    curve = learning_curve(
        run_of(
            Made("b", (LOW - 50.0,) * 2, None, episodes=16),
            BROKEN,  # 4 episodes, no steps
            Made("c", (half,) * 2, None, episodes=12, length=100),
            REFUNDED,
            Made("e", (LOW,) * 2, None, episodes=16),
            Made("a", (best,) * 2, (0.0,) * 4, episodes=16, length=1),
            selected=6,
        )
    )
    assert curve is not None
    assert [(point.episodes, point.steps) for point in curve.points] == [(16, 160), (32, 1360), (64, 1536)]
    assert (curve.episodes, curve.steps) == (64, 1536)
    assert curve.at == {16: LOW - 50.0, 32: pytest.approx(half), 64: pytest.approx(best), 128: pytest.approx(best)}
    assert curve.area == pytest.approx((0.0 * 32 + 0.5 * 32 + 1.0 * 64) / 128)


def test_a_late_submission_has_a_smaller_area_than_an_early_one():
    late = learning_curve(run_of(Made("a", (LOW + UNIT,) * 2, (0.0,) * 4, episodes=128), selected=1))
    early = learning_curve(run_of(Made("a", (LOW + UNIT,) * 2, (0.0,) * 4, episodes=1), selected=1))
    assert late and early
    assert late.area == 0.0 and late.at[64] is None and late.at[128] == pytest.approx(LOW + UNIT)
    assert early.area == pytest.approx(127 / 128) and early.at[16] == pytest.approx(LOW + UNIT)


def test_a_curve_has_no_value_beyond_the_budget():
    curve = learning_curve(run_of(GOOD, selected=1, budget=32))
    assert curve and curve.at == {16: -59.0, 32: -59.0, 64: None, 128: None}


def test_a_curve_needs_every_submission_validated_and_a_scale():
    """Under a limit on candidates, superseded submissions are unknown. A task without a scale has no area."""
    assert learning_curve(run_of(Made("b", None, BAD.heldout), GOOD, selected=2)) is None
    unscaled = learning_curve(run_of(GOOD, selected=1, task="mine/task"))
    assert unscaled and unscaled.area is None and unscaled.at[16] == -59.0
    shifted = run_of(GOOD, selected=1, options={"variant": "shifted", "text": "blind"})
    assert run_gain(shifted).heldout.share is None and learning_curve(shifted).area is None
    empty = learning_curve(run_of(BROKEN))
    assert empty and empty.points == () and empty.area == 0.0 and set(empty.at.values()) == {None}


def test_columns_of_a_run():
    run = run_of(BAD, GOOD, selected=2)
    row = gain_columns(run_gain(run), learning_curve(run))
    assert row["first_heldout"] == -435.0 and row["gain_heldout"] == 376.0 and row["gain_validation"] == 351.0
    assert row["at_16"] == -59.0 and row["first_submission"] == 1 and row["unchanged"] is False
    assert row["auc"] == pytest.approx(((-410.0 - LOW) * 8 + (-59.0 - LOW) * 112) / UNIT / 128)


def gain_of(*runs: RunRecord) -> EntrantGain:
    gain = entrant_gain(runs)
    assert gain is not None
    return gain


def test_one_run_has_an_interval_over_cases_and_says_so():
    gain = gain_of(run_of(BAD, GOOD, selected=2))
    assert gain.scope == "cases only: one run" and gain.gain and gain.gain.interval
    assert (gain.first, gain.gain.value, gain.measured, gain.runs) == (-435.0, 376.0, 1, 1)


def test_several_runs_are_averaged():
    """A run that never changed gained 0; one whose first submission was not measured is left out and counted."""
    unmeasured = run_of(Made("b", BAD.validation, None), GOOD, selected=2)
    gain = gain_of(run_of(BAD, GOOD, selected=2), run_of(GOOD, selected=1), unmeasured)
    assert gain.gain and gain.gain.value == 188.0 and gain.scope == "runs and cases"
    assert (gain.runs, gain.measured, gain.started, gain.unchanged) == (3, 2, 3, 1)
    assert gain.first == (-435.0 - 59.0) / 2 and gain.share == pytest.approx(188.0 / (-59.0 - LOW))
    assert gain.validation_gain and gain.validation_gain.value == pytest.approx(702.0 / 3)
    assert gain.curve and gain.curve[0] == (0, 0.0) and gain.curve[-1][0] == 16
    assert gain.curve[-1][1] == pytest.approx((-59.0 - LOW) / UNIT)
    assert entrant_gain([]) is None


def test_areas_and_heights_have_intervals_over_runs():
    """Student's t over the runs' own numbers; none for one run, and none where nothing varied."""
    quick, slow = run_of(GOOD, selected=1), run_of(BAD, GOOD, selected=2)
    heights = [-59.0, -59.0, -410.0]
    curves = [quick, run_of(GOOD, selected=1), run_of(BAD, selected=1)]
    gain = gain_of(*curves)
    height = curve_means([learning_curve(run) for run in curves]).at[16]
    assert height and height.value == pytest.approx(sum(heights) / 3) and height.interval
    reach = stats.t.ppf(0.975, 2) * np.std(heights, ddof=1) / 3**0.5
    assert height.interval.high - height.interval.low == pytest.approx(2 * reach, rel=0.1)  # skewness moves the ends
    assert gain.at[16] == Number(height.value, Interval(-500.0, 0.0))  # the possible returns of Acrobot
    assert gain.area and gain.area.interval and gain.area.interval.low < gain.area.value
    alone, equal = gain_of(slow), gain_of(quick, run_of(GOOD, selected=1))
    assert alone.area and alone.area.interval is None and alone.at[16] == Number(-59.0, None)
    assert equal.at[16] == Number(-59.0, None)
    compared = gain_difference(curves, [slow, quick])
    assert compared and compared.area_difference and compared.area_difference.interval
    areas = [area.value for area in compared.areas if area]
    assert compared.area_difference.value == pytest.approx(areas[0] - areas[1])
    mine, theirs = (at[16] for at in compared.at)
    difference = compared.at_difference[16]
    assert mine and theirs and difference and difference.interval
    assert difference.value == pytest.approx(mine.value - theirs.value)


def test_gains_of_two_entrants_are_paired_by_case():
    other = Made("e", (-300.0, -300.0), tuple(value - 5.0 for value in BAD.heldout or ()))
    gain = gain_difference([run_of(BAD, GOOD, selected=2)], [run_of(BAD, other, selected=2)])
    assert gain and gain.gains == (376.0, -5.0) and gain.difference and gain.difference.value == 381.0
    assert gain.firsts == (-435.0, -435.0) and gain.scope == ONE_RUN
    assert gain.difference.interval is None


def test_tables_of_a_leaderboard():
    runs = [run_of(BAD, GOOD, selected=2, agent="kimi"), run_of(GOOD, selected=1), run_of(GOOD, selected=1)]
    (board,) = leaderboard(runs, [], draws=100).boards
    table = task_scores_table(board.tasks[0])
    by_entrant = {row[1]: dict(zip(table.columns, row, strict=True)) for row in table.rows}
    assert (by_entrant["kimi m"]["first"], by_entrant["kimi m"]["gain"]) == ("-435", "+376")
    assert (by_entrant["codex m"]["first"], by_entrant["codex m"]["gain"]) == ("-59", "0")
    assert unchanged_runs(board) == "2 of 3 runs never changed their policy after the first submission"
    worth = feedback_table(board)
    rows = {row[1]: dict(zip(worth.columns, row, strict=True)) for row in worth.rows}
    assert rows["kimi m"]["notes"] == "cases only: one run" and rows["kimi m"]["unchanged"] == "0 of 1"
    assert rows["codex m"]["notes"] == "no interval: nothing varied"
    assert {"at 16", "at 128"} <= set(worth.columns)


def variant_run(task: str, score: float, variant: str = "plain", text: str = "brief", key: str = "k", **more: Any):
    """Return a run on four cases, with the conditions in its fingerprint as a judge writes them."""
    facts: dict[str, Any] = {"text": text} | more.pop("facts", {})
    if variant != "plain":
        facts["variant"] = {"name": variant, "key": key, {"disguised": "disguise", "shifted": "shift"}[variant]: "d"}
    run = synthetic_run([score + 1, score - 1, score, score], task, facts=facts,
                        options={"variant": variant, "text": text}, **more)  # fmt: skip
    assert contradiction(run) is None
    return run


def levels(*pairs: tuple[float, float], agent: str = "codex") -> list[RunRecord]:
    """Return plain and disguised runs at these normalised levels, a task for each pair."""
    runs = []
    for task, (plain, disguised) in zip(sorted(scales()), pairs, strict=False):
        at = scales()[task]
        runs.append(variant_run(task, at.low + plain * at.unit, agent=agent))
        runs.append(variant_run(task, at.low + disguised * at.unit, "disguised", "blind", agent=agent))
    return runs


def test_the_knowledge_gap_is_paired_by_task():
    (gap,) = knowledge_gaps(named(levels((1.0, 0.5), (0.8, 0.5), (0.9, 0.5))))
    assert (gap.entrant, gap.text, gap.normalised_tasks) == ("codex m", "brief", 3)
    assert gap.normalised and gap.normalised.value == pytest.approx(0.4)
    reach = stats.t.ppf(0.975, 2) * 0.1 / np.sqrt(3)
    assert gap.normalised.interval
    assert (gap.normalised.interval.low, gap.normalised.interval.high) == pytest.approx((0.4 - reach, 0.4 + reach))
    first = gap.tasks[0]
    assert first.gap.value == pytest.approx(first.plain - first.disguised) and first.runs == (1, 1)
    assert first.normalised == pytest.approx(0.5)
    table = knowledge_gap_table(gap)
    assert len(table.rows) == 4 and table.rows[-1][-1] == "3 tasks" and "brief" in table.title


def test_a_knowledge_gap_of_few_runs_says_how_often_its_interval_holds_and_ends_at_the_possible_returns():
    runs = [variant_run(TASK, -100.0 - 300.0 * number, "plain") for number in range(2)]
    runs += [variant_run(TASK, -110.0 - 300.0 * number, "disguised", "blind") for number in range(2)]
    (gap,) = knowledge_gaps(named(runs))
    (task,) = gap.tasks
    assert task.gap.interval == Interval(-500.0, 500.0)
    note = knowledge_gap_table(gap).rows[0][-1]
    assert note.startswith("95 % intervals from so few runs contained the true value in 4")


def test_one_task_has_no_interval_over_tasks():
    (gap,) = knowledge_gaps(named(levels((1.0, 0.5))))
    assert gap.normalised and gap.normalised.value == pytest.approx(0.5) and gap.normalised.interval is None
    assert knowledge_gap_table(gap).rows[-1][-1] == "no interval: one task"


def test_only_runs_that_differ_in_variant_and_text_alone_are_paired():
    plain = variant_run(TASK, -80.0)
    for other in (
        {"agent": "kimi"},
        {"settings": {"effort": "high"}},
        {"budget": 64},
        {"splits": "sealed:x"},
        {"facts": {"own_models": "forbidden"}},
        {"facts": {"packages": {"numpy": "1"}}},
        {"publishable": False},
        {"network": "open"},
    ):
        more = dict(other)
        if "own_models" in more.get("facts", {}):
            run = synthetic_run(
                [-100.0] * 4, TASK, facts={"text": "blind", "own_models": "forbidden",
                                           "variant": {"name": "disguised", "key": "k"}},
                options={"variant": "disguised", "text": "blind", "own_models": "forbidden"},
            )  # fmt: skip
        else:
            run = variant_run(TASK, -100.0, "disguised", "blind", **more)
        assert knowledge_gaps(named([plain, run])) == (), other
    assert knowledge_gaps(named([plain, variant_run(TASK, -100.0, "shifted", "blind")])) == ()
    (gap,) = knowledge_gaps(named([plain, variant_run(TASK, -100.0, "disguised", "blind")]))
    assert gap.tasks[0].gap.value == 20.0 and gap.left_out == {}


def test_two_disguises_of_a_task_are_not_put_together():
    runs = [variant_run(TASK, -80.0) for _ in range(2)]
    runs += [variant_run(TASK, -100.0, "disguised", "blind") for _ in range(2)]
    runs += [variant_run(TASK, -400.0, "disguised", "blind", key="another")]
    runs += [variant_run("core16/ant", 5.0)]
    (gap,) = knowledge_gaps(named(runs))
    assert gap.tasks[0].gap.value == 20.0 and gap.tasks[0].runs == (2, 2)
    assert gap.left_out == {
        f"{TASK}: 1 run": "with another disguise or other conditions, and fewer runs",
        "core16/ant": "it was not played disguised",
    }


def test_plain_runs_with_different_texts_make_different_gaps():
    runs = [
        variant_run(TASK, -100.0, "disguised", "blind"),
        variant_run(TASK, -80.0),
        variant_run(TASK, -60.0, text="full"),
    ]
    assert [(gap.text, gap.tasks[0].gap.value) for gap in knowledge_gaps(named(runs))] == [
        ("brief", 20.0),
        ("full", 40.0),
    ]


def test_a_hidden_result_without_an_ok_submission_contradicts():
    fine = run_of(BROKEN, BAD, GOOD, selected=3)
    forged = run_of(Made("c", None, BAD.heldout, verdict="import_error"), BAD, GOOD, selected=3)
    problems = [contradiction(_with_ids(run)) for run in (fine, forged)]
    assert problems[0] is None
    assert problems[1] is not None and "has a hidden result, but no submission of it was ok" in problems[1]


def _with_ids(run: RunRecord) -> RunRecord:
    """Return the record with the id of its own fingerprint."""
    ids = run.ids.model_copy(update={"comparable_id": fingerprint_id("c", run.ids.fingerprint)})
    return run.model_copy(update={"ids": ids})
