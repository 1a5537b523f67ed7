"""Run folders of strangers that are valid, and made to cost their reader as much as possible."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from evopolicygym.agents.transcripts import Tokens, TranscriptEvent, split_at_submissions, tokens_by_part
from evopolicygym.analysis import diagnostics, work_limit
from evopolicygym.analysis.analyze import analyze_runs
from evopolicygym.analysis.edits import code_reader
from evopolicygym.analysis.edits.kinds import CanonicalKind, CanonicalVersion, EarlierVersions, EditKind
from evopolicygym.analysis.edits.timeline import TimelineEvent, run_progress
from evopolicygym.analysis.edits.versions import CanonicalFacts
from evopolicygym.analysis.entrants import RunAuthor, name_entrants
from evopolicygym.analysis.spending import effort_by_submission
from evopolicygym.analysis.work_limit import WorkLimit
from evopolicygym.gateway.conversation import (
    ConversationStep,
    ConversationThread,
    StepKind,
    SubmissionMark,
    place_submissions,
)
from evopolicygym.judge.events import Owned, Refused, Turned
from evopolicygym.judge.state import RunState, apply, in_place
from evopolicygym.report import report_data
from evopolicygym.report.report_data import collect_report
from evopolicygym.run_record import load
from hostile_runs import copy_example, read_record, store, with_submissions, write_record

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def alternating(folder: Path, number: int) -> Path:
    run = copy_example(folder)
    names = [store(run, {"policy.py": f"x = {value}\n".encode() * 50, "data": b"0" * 1000}) for value in (1, 2)]
    return with_submissions(run, names, number)


def count_calls(monkeypatch: pytest.MonkeyPatch, module: object, name: str) -> list[object]:
    """Count the calls of a function by those that use it."""
    calls: list[object] = []
    function = getattr(module, name)

    def counted(*arguments: object) -> object:
        calls.append(arguments)
        return function(*arguments)

    monkeypatch.setattr(module, name, counted)
    return calls


def test_checkpoints_in_turn_are_read_and_compared_once(tmp_path, monkeypatch):
    run = alternating(tmp_path / "run", 300)
    lines = count_calls(monkeypatch, diagnostics, "read_lines")
    trees = count_calls(monkeypatch, report_data, "read_tree")
    diffs = count_calls(monkeypatch, report_data, "diff")
    data = collect_report([run], tmp_path)
    (run,) = data.runs
    assert (len(lines), len(trees), len(diffs)) == (2, 2, 3)
    assert len(run.rows) == 300 and all(row.diff for row in run.rows)
    assert {row.edit_size for row in run.rows[1:]} == {1.0}
    assert not run.diagnosis.left_out, "control: a run within the limits has no note"


def test_what_is_beyond_the_limit_of_a_run_is_noted(tmp_path, monkeypatch):
    run = alternating(tmp_path / "run", 6)
    (whole,) = analyze_runs([run]).runs
    assert not whole.left_out and whole.timeline[1].edit_size == 1.0, "control"
    monkeypatch.setattr(work_limit.WorkLimit.__init__, "__defaults__", (1000, work_limit.MAX_COMPARISONS))
    (cut,) = analyze_runs([run]).runs
    assert cut.left_out == (work_limit.READING,) and cut.timeline[1].edit_size is None
    (run,) = collect_report([run], tmp_path).runs
    assert run.rows[1].no_diff == f"the run has {work_limit.READING}"


def test_lines_that_are_compared_are_limited(tmp_path):
    run = copy_example(tmp_path / "run")
    orders = (range(200), reversed(range(200)))
    names = [store(run, {"policy.py": "".join(f"x{n} = 1\n" for n in order).encode()}) for order in orders]
    with_submissions(run, names, 2)
    opened = diagnostics.RunFolder(run, load(run), {})
    versions = [diagnostics.Version(name, code_reader.code_facts(run / "checkpoints" / name)) for name in names]
    assert diagnostics.EditMeasurer(opened).measure(*versions) == pytest.approx(0.995), "control"
    limited = diagnostics.RunFolder(run, opened.run, {}, WorkLimit(comparisons=100 * 200))
    assert diagnostics.EditMeasurer(limited).measure(*versions) is None
    assert limited.work.notes == (work_limit.COMPARING,)


def test_a_page_lists_a_limited_number_of_submissions_and_the_selected_one(tmp_path, monkeypatch):
    monkeypatch.setattr(report_data, "MAX_ROWS", 10)
    run = alternating(tmp_path / "run", 30)
    record = read_record(run)
    record["outcome"]["submission"] = 25
    write_record(run, record)
    (run,) = collect_report([run], tmp_path).runs
    assert [row.number for row in run.rows] == [*range(1, 11), 25]
    assert run.diagnosis.left_out == ("30 submissions, of which 11 are listed",)


def test_transcripts_of_all_turns_together_are_limited(tmp_path):
    """Hard links make any number of large transcripts from one."""
    run = copy_example(tmp_path / "run")
    record = read_record(run)
    turn = {"exit_code": 0, "wall_s": 1.0, "submissions": 0, "failure": None, "stop": True, "model": None}
    record["turns"] = [turn | {"usage": None, "price": None}] * 50
    write_record(run, record)
    (run / "logs" / "agent").mkdir(parents=True)
    first = run / "logs" / "agent" / "turn_001.out"
    first.write_text('{"input":"cat feedback/submit_001/x.txt"}\n' * 1000)
    for number in range(2, 51):
        (run / "logs" / "agent" / f"turn_{number:03}.out").hardlink_to(first)
    work = WorkLimit(read_bytes=10 * first.stat().st_size)
    effort_by_submission(load(run), run, work)
    assert work.notes == (work_limit.READING,)
    effort_by_submission(load(run), run, control := WorkLimit())
    assert not control.notes


def test_reading_the_code_of_all_checkpoints_is_limited_in_time(tmp_path, monkeypatch):
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "policy.py").write_text("x = 1\n")
    assert code_reader.SourceReader().read(tmp_path / "b").tree, "control"
    monkeypatch.setattr(code_reader, "MAX_SECONDS", 1e-9)
    reader = code_reader.SourceReader()
    assert reader.read(tmp_path / "a").tree
    later = reader.read(tmp_path / "b")
    assert later.tree is None and "not read, because reading others" in (later.error or "")


def test_checkpoints_that_were_not_read_are_not_taken_for_one_source(tmp_path, monkeypatch):
    monkeypatch.setattr(code_reader, "MAX_FAILURES", 0)
    monkeypatch.setattr(code_reader, "MAX_HASHED_BYTES", 5)
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "policy.py").write_text(f"x = '{name}'\n")
    reader = code_reader.SourceReader()
    assert len({reader.read(tmp_path / name).bundle_hash for name in ("a", "b")}) == 2


def test_very_many_episodes_are_no_record(tmp_path):
    run = copy_example(tmp_path / "run")
    record = read_record(run)
    assert analyze_runs([run]).runs, "control"
    record["submissions"][0] |= {"cases": [0] * 1_000_001, "train": None}
    write_record(run, record)
    (skipped,) = analyze_runs([run]).skipped
    assert "more than 1000000 episodes" in skipped.why


def fold_events(kind: str, number: int) -> Callable[[], object]:
    def play() -> RunState:
        state = RunState()
        for index in range(number):
            state = apply(state, events[kind](index), NOW, in_place)
        return state

    events: dict[str, Callable[[int], Refused | Owned | Turned]] = {
        "refused": lambda index: Refused(f"reason {index}"),
        "owned": lambda index: Owned("A", "fast"),
        "turned": lambda index: Turned("s", 0, 1.0, 0, None, None, "", False),
    }
    return play


def label_versions(number: int) -> Callable[[], object]:
    def label() -> None:
        earlier = EarlierVersions(WorkLimit())
        facts = [CanonicalFacts(program=f"p{n}", shape=f"s{n}", code_shape=f"c{n}", statements=["a"]) for n in (1, 2)]
        for index in range(number):
            version = CanonicalVersion(f"{index % 2}", facts[index % 2])
            kind = earlier.kind(version)
            assert kind is (CanonicalKind.EXACT if index > 1 else CanonicalKind.SYNTHESIS if index else None)
            earlier.add(version)

    return label


def follow_drops(number: int) -> Callable[[], object]:
    events = [
        TimelineEvent(index + 1, "c", EditKind.RETEST if index else EditKind.FIRST, "ok", index, -float(index), 1.0,
                      False, None, None)
        for index in range(number)
    ]  # fmt: skip
    return lambda: run_progress(events, number)


def split_tokens(number: int) -> Callable[[], object]:
    tokens = Tokens(fresh_input=1, output=1)
    numbers = range(1, number + 1)
    events = [TranscriptEvent(False, (), frozenset({n}), {"builtin": (str(n), tokens)}) for n in numbers]

    def split() -> None:
        parts = split_at_submissions(events, numbers)
        assert parts and tokens_by_part(parts, "output", number) == [*[1] * number, 0]

    return split


def place_marks(number: int) -> Callable[[], object]:
    def place() -> None:
        steps = [ConversationStep(StepKind.ASSISTANT, float(n)) for n in range(number)]
        thread = ConversationThread(steps=steps)
        place_submissions([thread], [SubmissionMark(n, n + 0.5, "x") for n in range(number)])
        assert [step.kind for step in thread.steps[:3]] == [StepKind.ASSISTANT, StepKind.SUBMISSION, StepKind.ASSISTANT]

    return place


def name_authors(number: int) -> Callable[[], object]:
    authors = [RunAuthor("same", "a", (("x", str(index)),)) for index in range(number)]

    def name() -> None:
        entrants = name_entrants(authors).entrants
        assert len(entrants) == number and all(entrant.note == f"x {entrant.settings['x']}" for entrant in entrants)

    return name


@pytest.mark.parametrize(
    ("make", "number"),
    [
        pytest.param(lambda n: fold_events("refused", n), 1000, id="refusals of a ledger"),
        pytest.param(lambda n: fold_events("owned", n), 8000, id="owners of a ledger"),
        pytest.param(lambda n: fold_events("turned", n), 8000, id="turns of a ledger"),
        pytest.param(label_versions, 1500, id="canonical kinds"),
        pytest.param(follow_drops, 1500, id="drops"),
        pytest.param(split_tokens, 1000, id="tokens of submissions"),
        pytest.param(place_marks, 1000, id="submissions of a transcript"),
        pytest.param(name_authors, 150, id="entrants of one name"),
    ],
)
def test_time_grows_with_the_number_and_not_with_its_square(make, number):
    """Eight times as many may take 24 times as long: linear is 8, quadratic 64."""
    small, large = make(number), make(8 * number)
    assert _seconds(large) < 24 * _seconds(small) + 0.02


def test_the_times_would_tell():
    """Control of the test above."""

    def quadratic(number: int) -> Callable[[], object]:
        return lambda: [sum(range(number)) for _ in range(number)]

    assert _seconds(quadratic(4000)) > 24 * _seconds(quadratic(500)) + 0.02


def _seconds(function: Callable[[], object]) -> float:
    """Return the least CPU time of three calls."""
    times = []
    for _ in range(3):
        began = time.process_time()
        function()
        times.append(time.process_time() - began)
    return min(times)


def test_a_state_that_was_folded_equals_one_that_was_copied():
    turned = Turned("s", 0, 1.0, 0, None, None, "", False)
    events = [Owned("A", "fast"), Refused("x"), Refused("x"), turned, Owned("A", "fast")]
    folded = copied = RunState()
    for index, event in enumerate(events):
        moment = NOW + timedelta(seconds=index)
        copied = apply(copied, event, moment)
        folded = apply(folded if index else RunState(), event, moment, in_place)
    assert list(folded.owned) == list(copied.owned) and list(folded.turns) == list(copied.turns)
    assert folded.refused == copied.refused == {"x": 2}
    assert folded.periods == copied.periods
