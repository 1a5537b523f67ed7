"""The curve of the best validation mean, and what the run spent."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from run_folders import Step, source, write_run

from evopolicygym.analysis.diagnostics import Diagnosis, diagnose
from evopolicygym.analysis.edits.kinds import EditKind
from evopolicygym.analysis.edits.timeline import CurvePoint, TimelineEvent, run_progress
from evopolicygym.analysis.loading import open_run_folder
from evopolicygym.analysis.spending import SubmissionEffort


def run_of(folder, steps: list[Step], budget: int = 128) -> Diagnosis:
    return diagnose(open_run_folder(write_run(folder / "run", steps, budget=budget).folder))


def events(*scored: tuple[int, float]) -> list[TimelineEvent]:
    """Parametric edits with these means, after so many episodes."""
    timeline_events: list[TimelineEvent] = []
    for number, (consumed, mean) in enumerate(scored, start=1):
        best = max(mean, timeline_events[-1].best) if timeline_events else mean
        kind = EditKind.PARAMETRIC if timeline_events else EditKind.FIRST
        hit = bool(timeline_events) and mean > timeline_events[-1].best
        timeline_events.append(TimelineEvent(number, str(number), kind, "ok", consumed, mean, best, hit, None, None))
    return timeline_events


def test_the_curve_and_its_area():
    made = run_progress(events((10, 0.0), (20, -5.0), (60, 10.0), (100, 20.0)), budget=110)
    assert made.curve == (CurvePoint(10, 0.0), CurvePoint(60, 10.0), CurvePoint(100, 20.0))
    assert made.area == (50 * 0.0 + 40 * 10.0 + 10 * 20.0) / 100
    assert made.episodes_to == {50: 60, 80: 100, 95: 100}
    assert made.best_submission == 4


def test_negative_scores_are_measured_from_the_first():
    made = run_progress(events((1, -500.0), (2, -300.0), (3, -110.0), (4, -100.0)), budget=10)
    assert made.episodes_to == {50: 2, 80: 3, 95: 3}


def test_a_run_that_never_improves_reaches_its_best_with_the_first_submission():
    made = run_progress(events((8, 3.0), (16, 1.0), (24, 3.0)), budget=128)
    assert made.episodes_to == {50: 8, 80: 8, 95: 8}
    assert made.area == 3.0
    assert (made.submissions_after_best, made.drops, made.last_minus_best) == (2, 1, 0.0)


def test_the_whole_budget_in_one_submission():
    assert run_progress(events((128, 7.0)), budget=128).area == 7.0


def test_progress_without_a_score_is_unknown():
    made = run_progress([], budget=128)
    assert (made.curve, made.area, made.best_submission, made.last_minus_best) == ((), None, None, None)
    assert made.episodes_to == {50: None, 80: None, 95: None}


@given(st.lists(st.tuples(st.integers(1, 20), st.floats(-1e6, 1e6)), min_size=1, max_size=10))
def test_the_area_lies_between_the_first_and_the_best(steps):
    consumed = [sum(cost for cost, _ in steps[: index + 1]) for index in range(len(steps))]
    made = run_progress(events(*zip(consumed, [mean for _, mean in steps], strict=True)), budget=consumed[-1] + 5)
    slack = 1e-6
    assert made.curve[0].best - slack <= made.area <= made.curve[-1].best + slack
    assert sorted(made.episodes_to.values()) == list(made.episodes_to.values())


def test_drops_and_how_they_are_answered(tmp_path):
    """One answered by a rollback (over a retest), one by another synthesis, one not at all."""
    steps = [
        source("a = 1", validation=5),
        source("b = [1]", validation=2),
        source("b = [1]", validation=2),
        source("a = 1", validation=5),
        source("def c(): pass", validation=4),
        source("def d(): pass", validation=6),
        source("def d(): return", validation=1.5),
    ]
    made = run_of(tmp_path, steps).progress
    assert made.drops == 3
    assert made.largest_drop == 4.5
    assert made.drops_rolled_back == pytest.approx(1 / 3)
    assert made.last_minus_best == -4.5
    assert (made.best_submission, made.submissions_after_best) == (6, 1)


def test_the_worked_example_of_the_docs(tmp_path):
    steps = [
        source("a = 1", returns=[0] * 8, validation=10),
        source("a = 2", returns=[0] * 4, validation=14),
        source("a =", returns=[0], verdict="import_error"),
        source("b = [2]", returns=[0] * 4, validation=12),
        source("a = 3", returns=[0] * 2, validation=16),
        source("a = 3", returns=[0], validation=16),
    ]
    run = run_of(tmp_path, steps, budget=20)
    kinds = ["first", "parametric", "failed", "synthesis", "rollback", "retest"]
    assert [event.kind for event in run.timeline] == kinds
    assert [event.submission for event in run.timeline if event.hit] == [2, 5]
    assert run.progress.curve == (CurvePoint(8, 10.0), CurvePoint(12, 14.0), CurvePoint(19, 16.0))
    assert run.progress.area == (4 * 10 + 7 * 14 + 1 * 16) / 12
    assert run.progress.episodes_to == {50: 12, 80: 19, 95: 19}
    assert (run.progress.drops, run.progress.drops_rolled_back, run.progress.submissions_after_best) == (1, 1.0, 1)
    assert [(phase.kind, phase.first) for phase in run.phases] == [("parametric", 2), ("synthesis", 4), ("rollback", 5)]


def test_spending_counts_episodes_cases_errors_and_tokens(tmp_path):
    steps = [
        source("a = 1", returns=[1, 2, 3], cases=[0, 1, 1], clipped=6, thinking=10),
        source("a = 2", returns=[1, 2], cases=[1, 5], errors=["invalid_action", None], length=5, thinking=20),
        source("a = 3", returns=[1], cases=[9], refunded=True, thinking=30),
        source("a = (", returns=[1], cases=[7], verdict="import_error", thinking=40),
    ]
    spent = run_of(tmp_path, steps, budget=10).spending
    assert (spent.budget, spent.charged, spent.unused) == (10, 6, 4)
    assert (spent.accepted, spent.failed, spent.refunded) == (3, 1, 1)
    assert spent.refused == {"busy": 2, "budget_invalid": 1}
    assert spent.episodes_per_case == {0: 1, 1: 3, 5: 1, 7: 1}
    assert (spent.distinct_cases, spent.repeated_episodes) == (4, 2)
    assert spent.clipped_action_rate == 6 / (3 * 10 + 2 * 5)
    assert spent.invalid_action_rate == 1 / 5
    assert [(submission.submission, submission.episodes, submission.agent_s) for submission in spent.by_submission] == [
        (1, 3, 10.0),
        (2, 2, 20.0),
        (4, 1, 40.0),
    ]
    assert (spent.agent_s, spent.judge_s) == (70.0, 3.0)
    assert {submission.between for submission in spent.by_submission} == {SubmissionEffort()}


def test_a_time_that_is_unknown_stays_unknown(tmp_path):
    written = write_run(tmp_path / "run", [source("a = 1"), source("a = 2")])
    written.facts["submissions"][0] |= {"judged_at": None, "wall_s": None}
    written.rewrite()
    spent = diagnose(open_run_folder(written.folder)).spending
    assert [submission.agent_s for submission in spent.by_submission] == [60.0, None]
    assert (spent.agent_s, spent.judge_s) == (None, None)


def test_a_run_without_submissions(tmp_path):
    run = run_of(tmp_path, [])
    assert run.summary.outcome == "no_ok_submit"
    assert (run.spending.unused, run.spending.clipped_action_rate, run.spending.invalid_action_rate) == (
        128,
        None,
        None,
    )
    assert run.structure.first is run.structure.selected is run.structure.growth is None


def test_growth_of_the_code_over_submissions(tmp_path):
    small = "class Policy:\n    def act(self, obs):\n        return 0\n"
    large = small + "    def reset(self, i):\n        self.t = 0\n        for k in range(3):\n            if k: pass\n"
    steps = [
        source(small),
        source(large, validation=9),
        Step({"policy.py": "import more\n" + small, "more.py": "x = 1"}),
    ]
    shapes = run_of(tmp_path, steps).structure
    assert (shapes.first.lines, shapes.selected.lines, shapes.last.lines) == (3, 7, 5)
    assert (shapes.selected.functions, shapes.selected.depth, shapes.selected.state) == (2, 2, 1)
    assert shapes.growth == {
        "files": 1, "lines": 2, "functions": 0, "branches": 0, "loops": 0, "depth": 0, "state": 0,
    }  # fmt: skip
