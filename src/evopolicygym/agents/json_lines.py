"""Agents that are spoken to in JSON lines, as in the public v0.1 protocol: one process for the whole run.

To its standard input: `{"type": "prompt", "turn": 0, "message": "..."}`. From its standard output, for each prompt:
`{"turn": 0, "text": "...", "stop": false, "data": {}}`, all of it optional. Lines that are no JSON object are talk.
`data.usage` may hold the tokens and dollars of the turn, by the names of ``Usage``.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import IO, Any, Final

from evopolicygym.agents import json_events
from evopolicygym.agents.usage import AMOUNTS, MAX_AMOUNT, Usage

LONGEST_LINE: Final = 16 << 20


class MalformedReply(Exception):
    """What the agent said is not an answer. The conversation cannot go on."""


@dataclass(frozen=True)
class AgentReply:
    """``stop``: the agent wants no more prompts."""

    turn: int
    text: str = ""
    stop: bool = False
    data: Mapping[str, Any] = field(default_factory=dict)

    @property
    def usage(self) -> Usage | None:
        told = self.data.get("usage")
        if not isinstance(told, dict):
            return None
        amounts = {name: _amount(told.get(name), name) for name in AMOUNTS}
        return Usage(**amounts) if any(value is not None for value in amounts.values()) else None


def prompt_line(turn: int, message: str) -> str:
    return json.dumps({"type": "prompt", "turn": turn, "message": message}) + "\n"


def parse_reply(line: str, turn: int) -> AgentReply | None:
    """None for talk."""
    said = json_events.parse_event(line)
    if said is None:
        return None
    kinds: Mapping[str, type] = {"turn": int, "text": str, "stop": bool, "data": dict}
    for name, kind in kinds.items():
        if name in said and type(said[name]) is not kind:
            raise MalformedReply(f"{name!r} must be of type {kind.__name__}, not {type(said[name]).__name__}")
    if said.get("turn", turn) != turn:
        raise MalformedReply(f"it answered turn {said['turn']}, but was asked in turn {turn}")
    return AgentReply(turn, said.get("text", ""), said.get("stop", False), said.get("data", {}))


class Conversation:
    """With a process whose standard streams these are. ``heard`` is told every line, for the transcript."""

    def __init__(self, stdin: IO[str], stdout: IO[str], heard: Callable[[str], None] = lambda line: None) -> None:
        self._stdin, self._stdout, self._heard = stdin, stdout, heard
        self._turn = 0

    def say(self, message: str) -> AgentReply | None:
        """Waits for the answer; None when the agent has gone instead. Whoever has no more patience kills it."""
        turn, self._turn = self._turn, self._turn + 1
        try:
            self._stdin.write(prompt_line(turn, message))
            self._stdin.flush()
        except (BrokenPipeError, ValueError):
            return None
        return self._answer(turn)

    def _answer(self, turn: int) -> AgentReply | None:
        while line := self._stdout.readline(LONGEST_LINE):
            self._heard(line)
            if len(line) == LONGEST_LINE:
                raise MalformedReply(f"a line is longer than {LONGEST_LINE} characters")
            if reply := parse_reply(line, turn):
                return reply
        return None


def _amount(value: Any, name: str) -> Any:
    kinds = (int, float) if name == "cost_usd" else (int,)
    return value if type(value) in kinds and 0 <= value < MAX_AMOUNT else None
