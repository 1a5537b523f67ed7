"""The JSON-lines protocol of agents (as in the public v0.1 protocol): one process for the whole run.

To its standard input: `{"type": "prompt", "turn": 0, "message": "..."}`. From its standard output, for each prompt:
`{"turn": 0, "text": "...", "stop": false, "data": {}}`, all of it optional. Lines that are not JSON objects are
ignored. `data.usage` may hold the tokens and dollars of the turn, by the names of ``Usage``.
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
    """The agent printed a JSON object that is not a valid reply. The conversation cannot continue."""


@dataclass(frozen=True)
class AgentReply:
    """The agent's reply to one prompt. ``stop``: it wants no more prompts."""

    turn: int
    text: str = ""
    stop: bool = False
    data: Mapping[str, Any] = field(default_factory=dict)

    @property
    def usage(self) -> Usage | None:
        usage = self.data.get("usage")
        if not isinstance(usage, dict):
            return None
        amounts = {name: _amount(usage.get(name), name) for name in AMOUNTS}
        return Usage(**amounts) if any(value is not None for value in amounts.values()) else None


def prompt_line(turn: int, message: str) -> str:
    return json.dumps({"type": "prompt", "turn": turn, "message": message}) + "\n"


def parse_reply(line: str, turn: int) -> AgentReply | None:
    """Parse a line as a reply; None if it is not a JSON object. Raises MalformedReply."""
    reply = json_events.parse_event(line)
    if reply is None:
        return None
    kinds: Mapping[str, type] = {"turn": int, "text": str, "stop": bool, "data": dict}
    for name, kind in kinds.items():
        if name in reply and type(reply[name]) is not kind:
            raise MalformedReply(f"{name!r} must be of type {kind.__name__}, not {type(reply[name]).__name__}")
    if reply.get("turn", turn) != turn:
        raise MalformedReply(f"it replied to turn {reply['turn']}, but the prompt was turn {turn}")
    return AgentReply(turn, reply.get("text", ""), reply.get("stop", False), reply.get("data", {}))


class Conversation:
    """Prompts and replies over the standard streams of a process. ``on_line`` gets every line, for the transcript."""

    def __init__(self, stdin: IO[str], stdout: IO[str], on_line: Callable[[str], None] = lambda line: None) -> None:
        self._stdin, self._stdout, self._on_line = stdin, stdout, on_line
        self._turn = 0

    def prompt(self, message: str) -> AgentReply | None:
        """Send a prompt and wait for the reply; None if the agent exits instead. To stop waiting, kill the agent."""
        turn, self._turn = self._turn, self._turn + 1
        try:
            self._stdin.write(prompt_line(turn, message))
            self._stdin.flush()
        except (BrokenPipeError, ValueError):
            return None
        return self._reply(turn)

    def _reply(self, turn: int) -> AgentReply | None:
        while line := self._stdout.readline(LONGEST_LINE):
            self._on_line(line)
            if len(line) == LONGEST_LINE:
                raise MalformedReply(f"a line is longer than {LONGEST_LINE} characters")
            if reply := parse_reply(line, turn):
                return reply
        return None


def _amount(value: Any, name: str) -> Any:
    kinds = (int, float) if name == "cost_usd" else (int,)
    return value if type(value) in kinds and 0 <= value < MAX_AMOUNT else None
