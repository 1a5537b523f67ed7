"""Timeline and phases: what each submission was in the story of its run."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import permutations

import pytest
from run_folders import Step, source, write_run

from evopolicygym.analysis.diagnostics import Diagnosis, diagnose
from evopolicygym.analysis.edits.kinds import EditKind
from evopolicygym.analysis.edits.timeline import _is_beyond_noise, record_chances
from evopolicygym.analysis.loading import RunFolder, open_run_folder

# One letter is one submission: capital letters are shapes, a digit after it is the number in it.
SOURCES = {"A": "a = {}", "B": "b = [{}]", "C": "def c(): return {}", "D": "d = ({},)"}


def story(folder, words: str, *validation: float) -> Diagnosis:
    """`A1 A2 B1! A1` is shape A, its number changed, a failure with shape B, and back."""
    means = iter(validation or range(100))
    steps = [_step(word, float(next(means))) for word in words.split()]
    opened = open_run_folder(write_run(folder / "run", steps).folder)
    assert isinstance(opened, RunFolder)
    return diagnose(opened)


def _step(word: str, mean: float) -> Step:
    shape, number, more = word[0], word[1], word[2:]
    text = SOURCES[shape].format(number) + ("  # why" if more == "#" else "")
    files = {"policy.py": text} | ({"table.csv": "1,2"} if more == "+" else {})
    return Step(files, mean, verdict="crash" if more == "!" else "ok", refunded=more == "?")


@pytest.mark.parametrize(
    ("words", "kinds"),
    [
        ("A1", "first"),
        ("A1 A1 A2 B1 A2", "first retest parametric synthesis rollback"),
        ("B1! A1 B1! B1", "failed first failed synthesis"),
        ("A1 A1# A1+", "first cosmetic cosmetic"),
        ("A1 A1+ A1 A1+", "first data data data"),
        ("A1 B1? A1", "first refunded retest"),
        ("A1 B1 C1 A2 B2 D1", "first synthesis synthesis rollback rollback synthesis"),
    ],
)
def test_kinds_of_edits_in_a_timeline(tmp_path, words, kinds):
    assert " ".join(event.kind for event in story(tmp_path, words).timeline) == kinds


def test_a_hit_strictly_raises_the_best(tmp_path):
    events = story(tmp_path, "A1 A2 A3 A4! A5 A6", 5, 3, 4, 99, 5, 6).timeline
    assert [event.hit for event in events] == [False, False, False, False, False, True]
    assert [event.best for event in events] == [5, 5, 5, 5, 5, 6]


def in_all_orders(scores: Sequence[float]) -> list[float]:
    orders = list(permutations(scores))
    new_bests = [[here > max(order[:index]) for index, here in enumerate(order) if index] for order in orders]
    return [sum(column) / len(orders) for column in zip(*new_bests, strict=True)]


@pytest.mark.parametrize("scores", [(1, 2, 3, 4), (1, 1, 2, 3), (5, 5, 5), (1, 2, 2, 3, 3, 3)])
def test_the_chance_of_a_hit_is_counted_over_all_orders_of_the_scores(scores):
    assert record_chances(scores)[1:] == pytest.approx(in_all_orders(scores))


def test_hits_by_chance_and_beyond_noise(tmp_path):
    run = story(tmp_path, "A1 A2 A3 A3 A1", 1, 2, 3, 3, 1)
    assert [event.inert for event in run.timeline] == [None, False, False, True, False]
    assert [event.exact_return for event in run.timeline] == [False, False, False, False, True]
    assert run.edits[EditKind.PARAMETRIC].expected == pytest.approx(
        sum(in_all_orders((1, 2, 3, 3, 1))[i] for i in (0, 1, 3))
    )
    assert [event.beyond_noise for event in run.timeline[1:3]] == [True, True]


def test_a_gain_within_the_noise_of_the_cases(tmp_path):
    assert not _is_beyond_noise([0.0, 0.0, 0.0, 0.0], [10.0, -9.0, 10.0, -9.0])
    assert _is_beyond_noise([0.0, 0.0, 0.0, 0.0], [1.0, 1.1, 0.9, 1.0])
    assert not _is_beyond_noise([0.0], [1.0])


def test_the_first_score_is_no_transition(tmp_path):
    run = story(tmp_path, "A1! B1", 1, 2)
    assert not any(event.hit for event in run.timeline)
    assert sum(count.n for count in run.edits.values()) == 0


def test_a_submission_without_validation_is_unscored(tmp_path):
    steps = [source("x = 1"), source("x = 2", validation=None), source("x = 3")]
    run = diagnose(open_run_folder(write_run(tmp_path / "run", steps).folder))
    assert [event.kind for event in run.timeline] == ["first", "unscored", "parametric"]


def test_episodes_consumed(tmp_path):
    steps = [source("x = 1", returns=[1, 2, 3]), source("x = 2", refunded=True, returns=[1] * 9), source("x = 3")]
    run = diagnose(open_run_folder(write_run(tmp_path / "run", steps).folder))
    assert [event.consumed for event in run.timeline] == [3, 3, 4]


@pytest.mark.parametrize(
    ("words", "phases"),
    [
        ("A1", ""),
        ("A1 A2 A3", "parametric 2-3"),
        ("A1 B1 C1 C2 D1", "synthesis 2-3, parametric 4-4, synthesis 5-5"),
        ("A1 A2 A2 A2# D1! A3 A3+ A4", "parametric 2-8"),
        ("A1 B1 B1 B1+", "synthesis 2-2"),
        ("A1 B1 C1 A1 B1 D1", "synthesis 2-3, rollback 4-4, rollback 5-5, synthesis 6-6"),
        ("A1 B1 A1 A2", "synthesis 2-2, rollback 3-3, parametric 4-4"),
    ],
)
def test_phases_of_a_timeline(tmp_path, words, phases):
    edit_phases = story(tmp_path, words).phases
    assert ", ".join(f"{phase.kind} {phase.first}-{phase.last}" for phase in edit_phases) == phases


def test_a_phase_counts_its_edits_and_hits(tmp_path):
    (phase,) = story(tmp_path, "A1 A2 A2 A3 A4", 1, 2, 2, 0, 3).phases
    assert (phase.edits, phase.hits) == (3, 2)
