"""A conversation as text: one block for each message, wrapped to the width of a page."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from evopolicygym.agents.usage import Usage
from evopolicygym.gateway.conversation import ConversationStep, ConversationThread, StepKind, ThreadKind
from evopolicygym.gateway.messages import MessagePart, PartKind
from evopolicygym.gateway.streams import parse_json
from evopolicygym.printable import escape_unprintable, one_line

if TYPE_CHECKING:
    from evopolicygym.api.transcript import RunTranscript

INDENT: Final = "    "
HEAD_LINES, TAIL_LINES = 14, 6  # of a long text; the rest is counted
LONGEST_TEXT: Final = 200_000  # characters that are wrapped at a time, and that are read of a text that is shortened
COMMANDS: Final = ("command", "cmd", "script")
TITLES: Final = {ThreadKind.MAIN: "conversation", ThreadKind.AGENT: "sub-agent", ThreadKind.SIDE: "side call"}


def transcript_lines(read: RunTranscript, width: int = 80, is_full: bool = False) -> Iterator[str]:
    """Yield the lines of a transcript. Long texts are shortened, unless ``is_full``."""
    yield from _heading(read, width)
    threads = read.conversation.threads
    counts = dict.fromkeys(ThreadKind, 0)
    for thread in threads:
        counts[thread.kind] += 1
        title = TITLES[thread.kind]
        if len(threads) > 1:
            yield ""
            yield _rule(f"{title} {counts[thread.kind]}", "=", width)
        yield from _thread_lines(thread, width, is_full)
    for note in read.conversation.notes:
        yield from ("", *wrapped(f"note: {note}", width, ""))


def _heading(read: RunTranscript, width: int) -> Iterator[str]:
    record, conversation = read.record, read.conversation
    agent = f"{record.agent.name}{f' ({record.agent.model})' if record.agent.model else ''}" if record.agent else "none"
    yield from wrapped(f"{record.task.id}, played by {agent}", width, "")
    answers = [step for thread in conversation.threads for step in thread.steps if step.call]
    if answers:
        usage = conversation.usage
        tokens = f", tokens: {_tokens(usage)}" if usage else ""
        yield from wrapped(f"{_counted(len(answers), 'answer')}{tokens}", width, "")


def _thread_lines(thread: ConversationThread, width: int, is_full: bool) -> Iterator[str]:
    turn = 0
    for step in thread.steps:
        if step.turn > turn:
            turn = step.turn
            yield ""
            yield _rule(f"turn {turn}", "-", width)
        if step.kind is StepKind.SUBMISSION:
            yield ""
            yield from wrapped(f"*** {step.text}", width, "", "    ")
            continue
        yield ""
        yield _step_title(step)
        for part in step.parts:
            yield from _part_lines(part, width, is_full)


def _step_title(step: ConversationStep) -> str:
    clock = f"{datetime.fromtimestamp(step.at, UTC):%H:%M:%S}  " if step.at else ""
    facts = [f"{step.seconds:.1f} s"] if step.call else []
    facts += [f"tokens: {_tokens(step.usage)}"] if step.usage else []
    return f"{clock}{step.kind}{'  ' if facts else ''}{'; '.join(facts)}"


def _tokens(usage: Usage) -> str:
    inputs = [amount for amount in (usage.fresh_input, usage.cache_read, usage.cache_write) if amount is not None]
    cached = f" ({usage.cache_read:,} cached)" if usage.cache_read else ""
    reasoning = f" ({usage.reasoning:,} reasoning)" if usage.reasoning else ""
    output = "?" if usage.output is None else f"{usage.output:,}"
    return f"{sum(inputs):,} in{cached}, {output} out{reasoning}"


def _part_lines(part: MessagePart, width: int, is_full: bool) -> Iterator[str]:
    if part.kind is PartKind.CALL:
        text, mark = call_text(part.name, part.text), "  > "
    elif part.kind is PartKind.RESULT:
        text, mark = part.text, "  | "
    elif part.kind is PartKind.REASONING:
        text, mark = part.text or "(hidden)", "  ~ "
    elif part.kind is PartKind.TEXT:
        text, mark = part.text, INDENT
    else:
        text, mark = f"[{part.kind}: {part.text}]", INDENT
    if not is_full and len(text) > LONGEST_TEXT:
        left_out = len(text) - LONGEST_TEXT
        text = f"{text[:LONGEST_TEXT]}\n... {left_out:,} characters left out (--full shows them)"
    lines = (
        line
        for paragraph in escape_unprintable(text.strip("\n")).expandtabs(4).split("\n")
        for piece in _pieces(paragraph)
        for line in wrapped(piece, width, mark)
    )
    yield from lines if is_full else shortened(list(lines), mark, HEAD_LINES, TAIL_LINES, is_full=False)


def _pieces(paragraph: str) -> Iterator[str]:
    """Cut a long line: the time to wrap one word grows with the square of its length."""
    yield from (paragraph[start : start + LONGEST_TEXT] for start in range(0, max(1, len(paragraph)), LONGEST_TEXT))


def shortened(lines: list[str], mark: str, head: int, tail: int, is_full: bool) -> list[str]:
    """Return the first and last lines of a long text, and how many are between them."""
    if is_full or len(lines) <= head + tail + 1:
        return lines
    left_out = f"{mark}... {len(lines) - head - tail} lines left out (--full shows them)"
    return [*lines[:head], left_out, *lines[-tail:]]


def call_text(tool: str, text: str) -> str:
    """Show a shell command as one; other arguments by their names."""
    arguments = parse_json(text)
    if not isinstance(arguments, dict):
        return f"{tool} {text}".strip()
    command = next((arguments[name] for name in COMMANDS if name in arguments), None)
    if command is not None:
        words = command if isinstance(command, list) else [command]
        return f"{tool}: {' '.join(map(str, words))}"
    return "\n".join([f"{tool}:", *(f"  {name}: {_plain(value)}" for name, value in arguments.items())])


def _plain(value: Any) -> str:
    return value if isinstance(value, str) else str(value)


def wrapped(text: str, width: int, indent: str, hanging: str | None = None) -> list[str]:
    """Wrap one line between words; longer words are broken, so that every line fits."""
    if len(indent) + len(text) <= width:
        return [(indent + text).rstrip()]
    lead = " " * min(len(text) - len(text.lstrip()), width // 2)
    wrapper = textwrap.TextWrapper(
        width,
        initial_indent=indent + lead,
        subsequent_indent=(indent if hanging is None else hanging) + lead,
        break_on_hyphens=False,
    )
    return wrapper.wrap(text.strip()) or [indent.rstrip()]


def _rule(title: str, mark: str, width: int) -> str:
    return f"{mark * 2} {one_line(title)} ".ljust(width, mark)


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"
