"""The ledger: reading returns what was written, or names the line that was altered; state is a fold over it."""

from __future__ import annotations

import errno
import os
import resource
import signal
import traceback
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evopolicygym.errors import UserError
from evopolicygym.judge import scoring
from evopolicygym.judge.events import (
    Charged,
    Closed,
    EpisodeStats,
    Event,
    Finished,
    Judged,
    Opened,
    Owned,
    Refunded,
    Refused,
    Repeated,
    Scored,
    Selected,
    Validated,
)
from evopolicygym.judge.ledger import START, Ledger, LedgerCorrupt, LedgerUnwritable, line_hash, read
from evopolicygym.judge.state import RunPhase, RunState, apply, fold
from evopolicygym.sandbox.checkpoints import Checkpoint

NOW = datetime(2026, 1, 1, tzinfo=UTC)
NAN, INF = float("nan"), float("inf")
OPENED = Opened("run", 10, 2, 3, {"task": "toy"})


def charged(number: int, cases: tuple[int, ...] = (0,), content: str = "a") -> Charged:
    return Charged(number, f"key-{number}", Checkpoint(content * 64, 1, 10, True, False), cases)


def judged(number: int, verdict: str = "ok", returns: tuple[float, ...] = (1.0,)) -> Judged:
    played = EpisodeStats(returns, (1,) * len(returns), (None,) * len(returns)) if verdict == "ok" else None
    return Judged(number, verdict, played, 0, 0.5, {"returns": list(returns)}, "d" * 64)


def tally(*returns: float) -> EpisodeStats:
    return EpisodeStats(returns, (1,) * len(returns), (None,) * len(returns))


EVENTS: tuple[Event, ...] = (
    OPENED, Owned("A", "stock"), charged(1, (3, 1, 3)), judged(1, returns=(0.1, float.fromhex("0x1.fffffffffffffp-3"))),
    Refused("busy"), charged(2, (0, 1)), Refunded(2, "é \u2028 broke"), Closed("by hand"),
    Validated("a" * 64, tally(0.1, -0.0), 1.0), Selected(1), Scored("a" * 64, tally(1e-300, 1e300, 5.0), 1.0),
    Repeated((1e-300, 1e300, 5.0), 1.0), Finished(),
)  # fmt: skip


@pytest.fixture
def path(tmp_path: Path) -> Path:
    written = tmp_path / "ledger.jsonl"
    ledger = Ledger(written)
    for event in EVENTS:
        ledger.append(event)
    ledger.close()
    return written


def events(path: Path) -> list[Event]:
    return [line.event() for line, _ in read(path)]


def reopened(path: Path) -> Ledger:
    ledger = Ledger(path)
    list(ledger.recover())
    return ledger


def test_events_are_read_as_they_were_written(path):
    assert events(path) == list(EVENTS)
    lines = list(read(path))
    assert [line.sequence for line, _ in lines] == list(range(len(EVENTS)))
    assert [line.previous for line, _ in lines[1:]] == [line_hash(raw) for _, raw in lines[:-1]]
    assert path.stat().st_mode & 0o777 == 0o600


def test_a_torn_last_line_is_dropped(path):
    """Cut at every length."""
    whole = path.read_bytes()
    last = whole.rindex(b"\n", 0, -1) + 1
    for end in range(last, len(whole)):
        path.write_bytes(whole[:end])
        assert events(path) == list(EVENTS[:-1])
    ledger = reopened(path)
    assert path.read_bytes() == whole[:last]
    ledger.append(EVENTS[-1])
    assert events(path) == list(EVENTS)


def test_an_altered_byte_is_named(path):
    """The error names the altered line, or the next one."""
    lines = path.read_bytes().splitlines(keepends=True)
    for number, line in enumerate(lines[:-1]):
        for position in range(0, len(line), 7):
            changed = line[:position] + bytes([line[position] ^ 1]) + line[position + 1 :]
            path.write_bytes(b"".join([*lines[:number], changed, *lines[number + 1 :]]))
            with pytest.raises(LedgerCorrupt, match=f"line ({number + 1}|{number + 2})( |:|,)"):
                list(read(path))


@pytest.mark.parametrize("number", range(1, len(EVENTS) - 1))
def test_swapped_deleted_and_repeated_lines_are_named(path, number):
    lines = path.read_bytes().splitlines(keepends=True)
    swapped = [*lines[: number - 1], lines[number], lines[number - 1], *lines[number + 1 :]]
    deleted = [*lines[: number - 1], *lines[number:]]
    doubled = [*lines[: number + 1], *lines[number:]]
    for wrong in (swapped, deleted, doubled):
        path.write_bytes(b"".join(wrong))
        with pytest.raises(LedgerCorrupt, match=rf"line ({number}|{number + 2}): the chain is broken"):
            list(read(path))


def test_a_corrupt_ledger_is_never_written_to(path):
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[1:]))
    before = path.read_bytes()
    with pytest.raises(LedgerCorrupt):
        reopened(path)
    assert path.read_bytes() == before


def test_nan_and_infinity_are_refused(tmp_path):
    """In JSON they would become null, which no reader accepts."""
    ledger = Ledger(tmp_path / "ledger.jsonl")
    ledger.append(OPENED)
    for number in (NAN, INF):
        with pytest.raises(LedgerUnwritable, match="line 2"):
            ledger.append(Scored("a", tally(number), 1.0))
    assert events(ledger.path) == [OPENED]
    ledger.append(Finished())
    assert events(ledger.path) == [OPENED, Finished()]


def test_lone_surrogates_are_escaped(tmp_path):
    """In values, keys and lists: agents choose these texts. All other text is unchanged."""
    ledger = Ledger(tmp_path / "ledger.jsonl")
    line = ledger.append(Opened("\ud800", 1, 1, 1, {"\udcff": ["a\0b \N{GRINNING FACE}", {"x": "\udfff"}]}))
    assert line.event() == Opened("\\ud800", 1, 1, 1, {"\\udcff": ["a\0b \N{GRINNING FACE}", {"x": "\\udfff"}]})
    assert events(ledger.path) == [line.event()]


def test_a_full_disk_leaves_the_ledger_as_it_was(path):
    """A process with a limit on the size of files: the kernel refuses first a part of a line, then all of it."""
    before = path.read_bytes()
    child = os.fork()
    if child == 0:
        os._exit(_try_to_append(path))
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert path.read_bytes() == before
    ledger = reopened(path)
    ledger.append(Refused("busy"))
    assert events(path) == [*EVENTS, Refused("busy")]


def test_no_line_follows_one_that_could_not_be_removed(path, monkeypatch):
    """A line that is whole but not synced, and a shorter one over it, would leave a tail that breaks the chain."""
    ledger, whole = reopened(path), path.read_bytes()

    def broken(*_: int) -> None:
        raise OSError(errno.EIO, "Input/output error")

    with monkeypatch.context() as disk:
        disk.setattr(os, "fsync", broken)
        disk.setattr(os, "ftruncate", broken)
        with pytest.raises(LedgerUnwritable, match="nor remove the partial line"):
            ledger.append(charged(9, tuple(range(100))))
    with pytest.raises(LedgerUnwritable, match="restart the server"):
        ledger.append(Refused("busy"))
    assert path.read_bytes().startswith(whole)
    assert len(events(path)) == whole.count(b"\n") + 1  # as after a crash at that instant: the line counts


def _try_to_append(path: Path) -> int:
    try:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        ledger = reopened(path)
        for room in (30, 0):
            resource.setrlimit(resource.RLIMIT_FSIZE, (path.stat().st_size + room, resource.RLIM_INFINITY))
            with pytest.raises(LedgerUnwritable, match="File too large; nothing was written"):
                ledger.append(Refused("busy"))
            assert events(path) == list(EVENTS)
        resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        ledger.append(Refused("busy"))  # room again: the same writer goes on
        assert events(path) == [*EVENTS, Refused("busy")]
        os.truncate(path, path.stat().st_size - len(path.read_bytes().splitlines(keepends=True)[-1]))
        return 0
    except BaseException:
        traceback.print_exc()
        return 1


@st.composite
def histories(draw: st.DrawFn) -> list[Event]:
    """What a judge can write: budgets, refusals, faults and restarts at random, to the outcome or not."""
    history: list[Event] = [replace(OPENED, budget=draw(st.integers(1, 12)))]
    remaining, number, refunds = history[0].budget, 0, 0
    contents: list[str] = []
    while remaining and refunds < 3 and draw(st.integers(0, 5)):
        history += draw(st.lists(st.sampled_from([Owned("B", "stock"), Refused("busy")]), max_size=2))
        number += 1
        cost = draw(st.integers(1, remaining))
        history.append(charged(number, tuple(range(cost)), draw(st.sampled_from("abc"))))
        history += draw(st.lists(st.just(Owned("A", "fast")), max_size=1))  # killed while it ran, and taken over
        verdict = draw(st.sampled_from(["ok", "ok", "import_error", "fault"]))
        if verdict == "fault":
            refunds += 1
            history.append(Refunded(number, "broke"))
            continue
        remaining -= cost
        history.append(judged(number, verdict, tuple(map(float, range(cost)))))
        if verdict == "ok":
            contents.append(history[-2 if isinstance(history[-2], Charged) else -3].checkpoint.hash)
    history.append(Closed("budget_spent"))
    for content in dict.fromkeys(contents):
        means = st.floats(allow_nan=False, allow_infinity=False, width=16)
        history.append(Validated(content, tally(draw(means), draw(means)), 1.0))
    winner = scoring.best(folded(history))
    history.append(Selected(winner.number if winner else None))
    if winner:
        history += [Scored(winner.charged.checkpoint.hash, tally(1.0), 1.0), Repeated((1.0,), 1.0)]
    return [*history, Finished()]


def folded(history: list[Event]) -> RunState:
    state = RunState()
    for event in history:
        state = apply(state, event, NOW)
    return state


@settings(max_examples=100, deadline=None)
@given(histories())
def test_every_prefix_of_a_history_is_consistent(history):
    """The budget adds up at each line, phases never go back, at most one submission runs."""
    state, phases = RunState(), list(RunPhase)
    for event in history:
        before, state = state, apply(state, event, NOW)
        unrefunded = [submission for submission in state.submissions.values() if submission.refunded is None]
        assert state.remaining + sum(len(submission.charged.cases) for submission in unrefunded) == state.budget
        assert 0 <= state.remaining <= state.budget
        assert phases.index(state.phase) >= phases.index(before.phase)
        assert (
            sum(submission.is_running for submission in state.submissions.values()) == (state.running is not None) <= 1
        )
        assert list(state.submissions) == list(range(1, len(state.submissions) + 1))
        assert all(state.by_key(submission.charged.key) == submission for submission in state.submissions.values())
        assert {submission.number for submission in state.candidates} <= {
            submission.number for submission in unrefunded
        }
    assert state.running is None and state.phase is RunPhase.FINISHED
    assert not scoring.unvalidated(state)


@settings(max_examples=25, deadline=None)
@given(histories(), st.data())
def test_a_history_is_read_back_after_a_crash_anywhere(tmp_path_factory, history, data):
    """A prefix gives the state of that time; appending the rest gives the whole state."""
    path = tmp_path_factory.mktemp("ledger") / "ledger.jsonl"
    ledger = Ledger(path, now=lambda: NOW)
    for event in history:
        ledger.append(event)
    whole = path.read_bytes()
    end = data.draw(st.integers(0, len(whole)))
    path.write_bytes(whole[:end])
    kept = whole[:end].count(b"\n")
    again = Ledger(path, now=lambda: NOW)
    assert fold(again.recover()) == folded(history[:kept])
    for event in history[kept:]:
        again.append(event)
    assert path.read_bytes() == whole


def candidates(*validated: tuple[float, ...]) -> RunState:
    """One ``ok`` submission for each, with these validation returns."""
    state = folded([OPENED])
    for number, returns in enumerate(validated, 1):
        content = chr(ord("a") + number)
        for event in (charged(number, (0,), content), judged(number), Validated(content * 64, tally(*returns), 1.0)):
            state = apply(state, event, NOW)
    return state


@pytest.mark.parametrize(
    ("validated", "winner"),
    [
        ((), None),
        (((1.0, 3.0), (2.0, 1.0)), 1),
        (((1.0, 3.0), (2.0, 2.0)), 2),  # equal means: the later
        (((2.0, 2.0), (1.0, 3.0), (1.0, 1.0)), 2),
        (((-5.0, -5.0), (NAN, 9.0)), 1),
        (((NAN, 9.0), (-5.0, -5.0)), 2),
        (((NAN, NAN),), None),
        (((INF, -INF), (1.0, 1.0)), 2),
        (((INF, INF), (1.0, 1.0), (INF, 0.0)), 2),
        (((1.7e308, 1.7e308), (1.0, 1.0)), 1),  # a sum beyond all floats, a mean within them
        (((0.1 + 0.2, 0.0), (0.3, 0.0)), 1),  # by the last bit, without any epsilon
    ],
)
def test_the_best_validation_mean_is_selected(validated, winner):
    best = scoring.best(candidates(*validated))
    assert (best.number if best else None) == winner


def forged(path: Path, *events: tuple[str, str]) -> Path:
    """A ledger of these kinds and data whose chain holds, as whoever can write the folder can write it."""
    previous, written = START, b""
    for number, (kind, data) in enumerate(events):
        raw = (
            f'{{"sequence":{number},"time":"2026-01-01T00:00:00Z","kind":"{kind}","data":{data},"previous":"{previous}"}}'
        ).encode()
        previous, written = line_hash(raw), written + raw + b"\n"
    path.write_bytes(written)
    return path


OPENING = '{"run":"r","budget":8,"validation_cases":1,"heldout_cases":1,"facts":%s}'
CHECKPOINT = '{"hash":"%s","files":1,"bytes":1,"has_policy":true,"uses_scipy":false}'
CHARGE = '{"submission":%s,"key":"k","checkpoint":%s,"cases":[0]}'
HOSTILE_LINES = {
    "deep": ("opened", OPENING % ('{"x":' + "[" * 100_000 + "]" * 100_000 + "}")),
    "digits": ("charged", CHARGE % ("9" * 5000, CHECKPOINT % ("0" * 64))),
    "a large number": ("charged", CHARGE % (10**12, CHECKPOINT % ("0" * 64))),
    "a negative number": ("charged", CHARGE % (-1, CHECKPOINT % ("0" * 64))),
    "a path": ("charged", CHARGE % (1, CHECKPOINT % "../../private")),
    "a path that is validated": (
        "validated",
        '{"checkpoint":"../x","tally":{"returns":[1.0],"lengths":[1],"errors":[null]},"wall_s":1.0}',
    ),
    "settings": ("opened", (OPENING % "{}")[:-1] + ',"settings":"x"}'),
    "a large budget": ("opened", (OPENING % "{}").replace("8", "9" * 15)),
}


@pytest.mark.parametrize("name", HOSTILE_LINES)
def test_values_of_forged_lines_are_checked(tmp_path, name):
    with pytest.raises(LedgerCorrupt, match="line 1 is not a line of a ledger"):
        list(read(forged(tmp_path / "ledger", HOSTILE_LINES[name])))
    assert len(list(read(forged(tmp_path / "ledger", ("charged", CHARGE % (1, CHECKPOINT % ("0" * 64))))))) == 1


def test_a_verdict_without_a_charge_is_corruption(tmp_path):
    path = forged(tmp_path / "ledger", ("opened", OPENING % "{}"), ("refunded", '{"submission":3,"text":""}'))
    with pytest.raises(LedgerCorrupt, match="submission 3, which was never charged"):
        fold(line for line, _ in read(path))


def test_a_ledger_must_be_a_plain_file(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to(forged(tmp_path / "whole", ("opened", OPENING % "{}")))
    with open(tmp_path / "sparse", "wb") as file:
        file.truncate(8 << 40)
    for name in ("pipe", "link", "sparse"):
        with pytest.raises(UserError, match="cannot read the ledger"):
            list(read(tmp_path / name))
    with pytest.raises(OSError):
        Ledger(tmp_path / "link")
