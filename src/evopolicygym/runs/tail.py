"""Follow a run from outside: what its agent says and does, its submissions, and its outcome. Nothing is locked.

The folder may come from a stranger, and its files may be growing: every read is bounded, no link is followed, and a
line that cannot be read becomes a note.
"""

from __future__ import annotations

import math
import os
import re
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import Any, Final

import msgspec

from evopolicygym.agents.transcripts import MAX_LINE_BYTES, client_line_texts
from evopolicygym.analysis.formatting import pluralize
from evopolicygym.errors import UserError
from evopolicygym.files import GrowingFile
from evopolicygym.gateway.conversation import ConversationReader, ConversationStep, StepKind
from evopolicygym.gateway.messages import PartKind
from evopolicygym.gateway.recording.reader import ModelRecording
from evopolicygym.judge.events import (
    Charged,
    Closed,
    Event,
    Finished,
    Judged,
    Opened,
    Prompted,
    Refunded,
    Scored,
    Selected,
    Suspended,
    Turned,
    Validated,
)
from evopolicygym.judge.ledger import LedgerLine
from evopolicygym.judge.state import submit_id
from evopolicygym.run_paths import TRANSCRIPTS, RunPaths, turn_file
from evopolicygym.runs.agent.limits import spending
from evopolicygym.runs.run_status import refuse_imported

POLL_S: Final = 0.3
MAX_TEXT: Final = 64_000  # characters of one event
MAX_TURNS: Final = 10_000
MAX_BAD_LINES: Final = 100  # of the ledger: a file of blank lines would be millions of notes
MAX_LOOKS: Final = 512  # at a run that is over, or not followed: its files may grow faster than they are read
OUTCOMES: Final = ("suspended", "finished")
SUBMISSION: Final = re.compile(r"\bsubmit_([0-9]{3,6})\b")
SPOKEN: Final = {"text": "says", "call": "does", "result": "result", "line": "prints"}
PARTS: Final = {PartKind.TEXT: "says", PartKind.REASONING: "thinks", PartKind.CALL: "does", PartKind.RESULT: "result"}


@dataclass(frozen=True)
class TailEvent:
    """One thing that happened in a run.

    Attributes:
        at: When, in seconds since 1970; of a client's own output, about when.
        kind: ``opened``, ``turn``, ``prompt``, ``says``, ``thinks``, ``does``, ``result``, ``prints`` (a line of a
            program that writes no JSON), ``submission``, ``verdict``, ``suspended``, ``closed``, ``validated``,
            ``selected``, ``score``, ``finished`` or ``note``.
        text: In words; what agents and models wrote is as they wrote it, so escape it before you print it.
        name: Of the tool, for ``does``.
        turn, submission: Their numbers, 0 if there is none.
        data: Numbers behind the words.
    """

    at: float
    kind: str
    text: str
    name: str = ""
    turn: int = 0
    submission: int = 0
    data: dict[str, Any] = field(default_factory=dict)


class RunTail:
    """Reads a run folder again and again. ``is_over`` once the ledger says that nothing more will come."""

    def __init__(self, root: Path) -> None:
        self.is_over = False
        self._root = root
        self._ledger = GrowingFile(root, RunPaths(root).ledger.name, MAX_LINE_BYTES)
        self._recording, self._conversation = ModelRecording(root), ConversationReader()
        self._outputs: dict[int, GrowingFile] = {}
        self._turn, self._budget, self._charged = 0, 0, 0
        self._cases: dict[int, int] = {}
        self._judged_at: dict[int, float] = {}
        self._prompted_at: dict[int, float] = {}
        self._ended_at: dict[int, float] = {}  # of turns
        self._checkpoints: dict[int, str] = {}
        self._scores: dict[str, float] = {}
        self._selected = 0
        self._clock, self._is_first = 0.0, True
        self._bad_lines = 0

    def new_events(self) -> list[TailEvent]:
        """Return what was added since the last call, in order of time."""
        refuse_imported(RunPaths(self._root))
        events = [event for line in self._ledger.lines() for event in self._ledger_events(line)]
        if self._recording.exists:
            for exchange in self._recording.added():
                events += [event for step in self._conversation.add(exchange) for event in _step_events(step)]
        else:
            events += self._client_events()
        self._is_first = False
        return sorted(events, key=lambda event: event.at)

    def _ledger_events(self, raw: bytes) -> Iterator[TailEvent]:
        try:
            line = msgspec.json.decode(raw, type=LedgerLine)
            event, at = line.event(), line.time.timestamp()
        except (ValueError, LookupError, RecursionError, OverflowError):  # msgspec's errors are ValueErrors
            yield self._left_out(time.time(), "cannot be read")
            return
        try:
            yield from (replace(shown, text=shown.text[:MAX_TEXT]) for shown in self._events(event, at))
        except (ValueError, TypeError, LookupError, AttributeError, ArithmeticError):  # facts of a forged ledger
            yield self._left_out(at, f"({line.kind}) makes no sense")

    def _left_out(self, at: float, why: str) -> TailEvent:
        """Return a note about a line that cannot be read. Raises UserError for too many of them: the file is no
        ledger."""
        self._bad_lines += 1
        if self._bad_lines > MAX_BAD_LINES:
            raise UserError(
                f"more than {MAX_BAD_LINES} lines of {RunPaths(self._root).ledger} cannot be read",
                "Name the folder of a run that was not altered.",
            )
        return TailEvent(at, "note", f"a line of the ledger {why}, and is left out")

    def _events(self, event: Event, at: float) -> Iterator[TailEvent]:
        match event:
            case Opened():
                self._budget = event.budget
                agent = event.facts.get("agent") or {}
                played = " ".join(str(agent[name]) for name in ("name", "model") if agent.get(name))
                player = f", played by {played}" if played else ""
                yield TailEvent(at, "opened", f"{event.facts['task']['id']}{player}; budget {event.budget} episodes")
            case Prompted():
                self._turn, self.is_over = event.turn, False
                self._prompted_at[event.turn] = at
                yield TailEvent(at, "turn", f"turn {event.turn} begins", turn=event.turn)
            case Turned():
                self._ended_at[self._turn] = at
                yield self._turn_end(event, at)
            case Charged(number):
                self._charged += len(event.cases)
                self._cases[number], self._checkpoints[number] = len(event.cases), event.checkpoint.hash
                text = f"{submit_id(number)} asks for {pluralize(len(event.cases), 'episode')}; {self._remaining} left"
                yield TailEvent(at, "submission", text, turn=self._turn, submission=number)
            case Judged(number):
                self._judged_at[number] = at
                mean = event.tally.mean if event.tally else None
                text = f"{submit_id(number)}: {event.verdict}{'' if mean is None else f', mean return {mean:.6g}'}"
                yield TailEvent(at, "verdict", text, submission=number, data={"verdict": event.verdict, "mean": mean})
            case Refunded(number):
                self._charged -= self._cases.get(number, 0)
                text = f"{submit_id(number)}: the judge failed, and refunded it: {event.text}"
                yield TailEvent(at, "verdict", text, submission=number, data={"verdict": "refunded", "mean": None})
            case _:
                yield from self._scoring_events(event, at)

    def _scoring_events(self, event: Event, at: float) -> Iterator[TailEvent]:
        match event:
            case Suspended():
                self.is_over = True
                yield TailEvent(at, "suspended", f"suspended: {event.reason}: {event.text}")
            case Closed():
                self._ended_at.setdefault(self._turn, at)
                yield TailEvent(at, "closed", f"closed: {event.reason}", data={"reason": event.reason[:MAX_TEXT]})
            case Validated(checkpoint, tally):
                text = f"validated checkpoint {checkpoint[:12]}: mean {tally.mean:.6g}"
                yield TailEvent(at, "validated", text, data={"checkpoint": checkpoint, "mean": tally.mean})
            case Selected(number):
                self._selected = number or 0
                text = f"selected {submit_id(number)}" if number else "no submission could be selected"
                yield TailEvent(at, "selected", text, submission=number or 0)
            case Scored(checkpoint, tally):
                self._scores[checkpoint] = tally.mean
                text = f"held-out mean {tally.mean:.6g} (checkpoint {checkpoint[:12]})"
                yield TailEvent(at, "score", text, data={"checkpoint": checkpoint, "mean": tally.mean})
            case Finished():
                self.is_over = True
                score = self._scores.get(self._checkpoints.get(self._selected, ""))
                outcome = "without a score" if score is None else f"{submit_id(self._selected)} scores {score:.6g}"
                yield TailEvent(
                    at, "finished", f"finished: {outcome}", submission=self._selected, data={"score": score}
                )

    @property
    def _remaining(self) -> int:
        return self._budget - self._charged

    def _turn_end(self, event: Turned, at: float) -> TailEvent:
        used = spending([event])
        parts = [f"turn {self._turn} ended after {event.wall_s:.0f} s"]
        parts += [f"{used.tokens:,.0f} tokens"] if used.tokens is not None else []
        parts += [f"${used.dollars:.2f}"] if used.dollars is not None else []
        parts += [f"{event.failure}: {event.text[:MAX_TEXT]}"] if event.failure else []
        data = {"tokens": used.tokens, "dollars": used.dollars, "failure": event.failure}
        return TailEvent(at, "turn", ", ".join(parts), turn=self._turn, data=data)

    def _client_events(self) -> Iterator[TailEvent]:
        """Read the client's own output, for agents whose calls are not recorded. It has no times: when a whole run is
        read at once, a text is placed after the submission that it names."""
        for turn in range(1, min(self._turn, MAX_TURNS) + 1):
            name = f"{TRANSCRIPTS}/{turn_file(turn, '.out')}"
            file = self._outputs.setdefault(turn, GrowingFile(self._root, name, MAX_LINE_BYTES))
            if self._is_first:
                self._clock = max(self._clock, self._prompted_at.get(turn, 0.0))
            for line in file.lines(is_over=turn < self._turn or self.is_over):
                for kind, text in client_line_texts(line):
                    yield TailEvent(self._time_of(text, turn), SPOKEN[kind], text[:MAX_TEXT], turn=turn)

    def _time_of(self, text: str, turn: int) -> float:
        if not self._is_first:  # it may be read later than what followed it in the ledger
            return min(time.time(), self._ended_at.get(turn, math.inf))
        named = [self._judged_at.get(int(number), 0.0) for number in SUBMISSION.findall(text[:MAX_TEXT])]
        self._clock = max([self._clock, *named])
        return self._clock


def _step_events(step: ConversationStep) -> Iterator[TailEvent]:
    if step.kind is StepKind.SYSTEM:
        return
    for part in step.parts:
        kind = {StepKind.USER: "prompt", StepKind.NOTE: "note"}.get(step.kind) or PARTS.get(part.kind, "note")
        usage = {"output_tokens": step.usage.output} if step.usage and part is step.parts[-1] else {}
        yield TailEvent(step.at, kind, part.text[:MAX_TEXT], part.name[:200], step.turn, data=usage)


def follow_run(
    root: Path, follow: bool = True, waiting: Callable[[], object] = lambda: None, poll_s: float = POLL_S
) -> Iterator[TailEvent]:
    """Yield the events of a run, from its beginning until it is over. Without ``follow``, those until now.

    ``waiting`` is called once if there is no run yet. Raises UserError if there is none and it is not followed, or if
    its ledger is not a plain file, or no ledger."""
    reader, has_waited, ledger = RunTail(root), False, RunPaths(root).ledger
    while True:
        if os.path.lexists(ledger):
            _check_plain(ledger)
        else:
            refuse_imported(RunPaths(root))
            if not follow:
                raise UserError(f"{root} holds no run", "Name the folder of a run: the one with ledger.jsonl.")
            if not has_waited:
                waiting()
            has_waited = True
        events, is_last = reader.new_events(), reader.is_over or not follow
        outcome = [events.pop()] if is_last and events and events[-1].kind in OUTCOMES else []
        yield from events
        if is_last:
            for events in islice(iter(reader.new_events, []), MAX_LOOKS):  # what is left of long files
                yield from events
            yield from outcome
            return
        time.sleep(poll_s)


def _check_plain(ledger: Path) -> None:
    if ledger.is_symlink() or not ledger.is_file():
        raise UserError(f"the ledger {ledger} is not a plain file", "Name the folder of a run that was not altered.")
