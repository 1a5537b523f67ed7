"""What the transcript of a turn shows: which feedback files the agent named to its tools, where its submissions were
answered, and what single requests cost. All rules for reading transcripts are here; no client is known by name.

Clients write events as JSON lines and differ in the words: what a tool was told stands under a key of ``TOLD``, what it
answered under a key of ``ANSWERED`` or in an object that says that it is one. The agent's own prose is neither.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO, Final

from evopolicygym.analysis.tokens import STEPS, Tokens, at
from evopolicygym.files import open_file

MAX_BYTES: Final = 256 << 20
MAX_LINE_BYTES: Final = 8 << 20  # longer ones are no events: as objects they could take a hundred times their size
MAX_EVENTS: Final = 500_000
TOLD: Final = frozenset({"input", "arguments", "args", "parameters", "command", "action", "calls"})
ANSWERED: Final = frozenset({"output", "aggregated_output", "observation", "result", "toolResult", "tool_use_result"})
ANSWERS: Final = {"type": "tool_result", "role": "tool"}
FILE: Final = re.compile(r"\bfeedback/([\w*?\[\]{},./-]*[\w*?\]}])")
SUBMISSION: Final = re.compile(r"\bsubmit_([0-9]{3,6})\b")


@dataclass(frozen=True)
class Moment:
    """One event. ``called``: it shows what a tool was told. ``files``: feedback files named to it, below `feedback/`.
    ``submissions``: numbers in what a tool answered. ``steps``: tokens of one request, by the rule that read them."""

    called: bool
    files: tuple[str, ...]
    submissions: frozenset[int]
    steps: dict[str, tuple[str, Tokens]]


def read_turn(folder: Path, number: int) -> list[Moment] | None:
    """None where there is no transcript, or none that shows events."""
    try:
        with open_file(folder, f"logs/agent/turn_{number:03}.out", MAX_BYTES) as file:
            return list(islice(_moments(file), MAX_EVENTS)) or None
    except OSError:
        return None


def _moments(file: BinaryIO) -> Iterator[Moment]:
    """Lines that are no events, and those that are nested or numbered beyond what we can read, are passed over."""
    while line := file.readline(MAX_LINE_BYTES):
        if line.lstrip().startswith(b"{"):
            try:
                event = json.loads(line)
                if isinstance(event, dict):
                    yield _moment(event)
            except (ValueError, RecursionError):
                continue


def _moment(event: Any) -> Moment:
    told: list[str] = []
    answered: list[str] = []
    for is_told, text in _texts(event, None):
        (told if is_told else answered).append(text)
    files = dict.fromkeys(path for text in told for path in FILE.findall(text) if _names_a_file(path))
    numbers = frozenset(int(number) for text in answered for number in SUBMISSION.findall(text))
    return Moment(bool(told), tuple(files), numbers, _steps(event))


def _texts(value: Any, is_told: bool | None) -> Iterator[tuple[bool, str]]:
    """Strings that a tool was told (True) or answered (False)."""
    if isinstance(value, str):
        if is_told is not None:
            yield is_told, value
    elif isinstance(value, list):
        for entry in value:
            yield from _texts(entry, is_told)
    elif isinstance(value, dict):
        here = False if is_told is None and _is_answer(value) else is_told
        for key, entry in value.items():
            yield from _texts(entry, _kind(key, here))


def _is_answer(value: dict[str, Any]) -> bool:
    return any(value.get(key) == word for key, word in ANSWERS.items())


def _kind(key: str, around: bool | None) -> bool | None:
    """Answers may hold what was told, as anything; an answer it remains."""
    if around is False:
        return False
    return False if key in ANSWERED else True if key in TOLD else around


def _names_a_file(path: str) -> bool:
    """Or a pattern of files; a folder alone was listed, not opened."""
    last = path.rsplit("/", 1)[-1]
    return "." in last or bool(set("*?[{") & set(last))


def _steps(event: Any) -> dict[str, tuple[str, Tokens]]:
    found = {}
    for rule in STEPS:
        if tokens := rule.read(event):
            identity = at(event, rule.identity)
            found[rule.name] = (identity if isinstance(identity, str) else "", tokens)
    return found
