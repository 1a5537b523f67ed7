"""Progress of a command on stderr: one status object, composed here, for runs, hidden scoring and suites.

On a terminal it is a live text of a few lines, none wider than the terminal. Elsewhere (a pipe, a log, TERM=dumb, CI)
it is a plain line for each change, and one a minute while nothing changes.
"""

from __future__ import annotations

import textwrap
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Final

from rich.status import Status
from rich.text import Text

from evopolicygym.analysis.formatting import pluralize
from evopolicygym.cli.output import is_live, live_width, stderr
from evopolicygym.printable import one_line
from evopolicygym.run_progress import RunProgress

REFRESH_S: Final = 0.25
HEARTBEAT_S: Final = 60.0  # between plain lines while nothing changes
LAST_LINE_S: Final = 2.0  # for the last line; the program that started the command may not read it
SEPARATOR: Final = " | "
SPINNER: Final = 2  # columns
ERROR_LINES: Final = 2  # of a live text; a plain line and the record have the whole error
ERROR_CHARACTERS: Final = 500
TENTHS: Final = 10
PLAYING: Final = ("agent", "playing")  # an agent submits often: that alone is no plain line

_live_texts: list[Status] = []


@dataclass(frozen=True)
class ProgressStatus:
    """Content of a progress line. ``phase`` comes first, then ``counts`` of what is done, times, spending, and the last
    error. ``step`` changes when a plain line is due."""

    phase: str
    counts: tuple[str, ...] = ()
    elapsed_s: float = 0.0
    remaining_s: float | None = None
    tokens: float | None = None
    dollars: float | None = None
    error: str = ""
    next_attempt_s: float | None = None
    step: str = ""


def run_progress_status(progress: RunProgress) -> ProgressStatus:
    """Return the status of a run."""
    hidden = f"{progress.hidden_left} hidden left" if progress.phase in ("closed", "selected") else ""
    best = progress.best_train_mean
    word = progress.doing.split(" ")[0]
    tenth = TENTHS * progress.charged // max(1, progress.budget)
    phase = progress.phase if word in PLAYING else word
    return ProgressStatus(
        phase=progress.doing,
        counts=(
            *([hidden] if hidden else []),
            f"{progress.charged}/{progress.budget} episodes",
            pluralize(progress.submissions, "submission"),
            "no score yet" if best is None else f"best {best:.5g}",
        ),
        elapsed_s=progress.elapsed_s,
        remaining_s=progress.remaining_s,
        tokens=progress.tokens,
        dollars=progress.dollars,
        error=progress.last_error,
        next_attempt_s=progress.next_attempt_s,
        step=f"{phase} {tenth} {progress.turns if progress.phase == 'open' else ''} {progress.last_error}",
    )


def progress_parts(status: ProgressStatus) -> list[str]:
    """Return the parts of a progress line, without the error."""
    remaining = "" if status.remaining_s is None else f", about {format_duration(status.remaining_s)} left"
    parts = [status.phase, *status.counts, f"{format_duration(status.elapsed_s)}{remaining}"]
    if spent := format_spending(status.tokens, status.dollars):
        parts.append(spent)
    return list(map(one_line, parts))


def progress_lines(status: ProgressStatus, width: int) -> list[str]:
    """Return the status in lines of at most ``width`` columns. Only the text of an error is ever cut."""
    lines = [""]
    for part in progress_parts(status):
        joined = f"{lines[-1]}{SEPARATOR}{part}" if lines[-1] else part
        if len(joined) <= width:
            lines[-1] = joined
        else:
            lines += textwrap.wrap(part, width)
    lines = [line for line in lines if line]
    if error := _error(status):
        wrapped = textwrap.wrap(error, width, break_on_hyphens=False)
        kept = wrapped[:ERROR_LINES]
        if len(wrapped) > ERROR_LINES:
            kept[-1] = f"{kept[-1][: width - 3]}..."
        lines += kept
    return lines


def plain_line(status: ProgressStatus) -> str:
    """Return the status in one line, as long as it is."""
    error = _error(status)
    return SEPARATOR.join([*progress_parts(status), *([error] if error else [])])


def _error(status: ProgressStatus) -> str:
    """Return the next attempt and the last error in words. A long error is cut at its end, so it comes last."""
    seconds = status.next_attempt_s
    attempt = "" if seconds is None else f"next attempt in {format_duration(seconds)}"
    error = f"last error: {one_line(' '.join(status.error.split()))[:ERROR_CHARACTERS]}" if status.error else ""
    return "; ".join(part for part in (attempt, error) if part)


def format_duration(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    if minutes >= 60:
        return f"{minutes // 60} h {minutes % 60:02} min"
    return f"{minutes} min {rest:02} s" if minutes else f"{rest} s"


def format_spending(tokens: float | None, dollars: float | None) -> str:
    """Return tokens and dollars; empty if neither is known."""
    parts = [] if tokens is None else [f"{format_count(tokens)} tokens"]
    return ", ".join([*parts, *([] if dollars is None else [f"${dollars:.2f}"])])


def format_count(number: float) -> str:
    """Return a number in few characters: 950, 12k, 3.4M."""
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if number >= size:
            value = number / size
            return f"{value:.1f}{letter}" if value < 10 else f"{value:.0f}{letter}"
    return f"{number:.0f}"


@contextmanager
def show_progress(look: Callable[[], ProgressStatus]) -> Iterator[None]:
    """Show what ``look`` returns while the block runs. It is called from a thread, several times a second."""
    done = threading.Event()
    show = _show_live if is_live() else _print_lines
    thread = threading.Thread(target=show, args=(look, done), daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join(LAST_LINE_S)


def _show_live(look: Callable[[], ProgressStatus], done: threading.Event) -> None:
    with Status("", console=stderr) as status:
        _live_texts.append(status)
        while not done.wait(REFRESH_S):
            lines = progress_lines(look(), max(20, live_width() - SPINNER))
            status.update(Text(f"\n{' ' * SPINNER}".join(lines)))  # not markup
        _live_texts.remove(status)


def _print_lines(look: Callable[[], ProgressStatus], done: threading.Event) -> None:
    printer = LinePrinter()
    while not done.wait(REFRESH_S):
        printer.show(look())
    printer.show(look())


class LinePrinter:
    """Prints a plain line when a status is new, and after a minute without one."""

    def __init__(self) -> None:
        self._step, self._printed_at = "", time.monotonic()

    def show(self, status: ProgressStatus) -> None:
        now = time.monotonic()
        if status.step != self._step or now >= self._printed_at + HEARTBEAT_S:
            stderr.print(plain_line(status))
            self._step, self._printed_at = status.step, now


def end_live_text() -> None:
    """Remove the live text and show the cursor; for exits that leave no time for more."""
    for status in _live_texts:
        with suppress(RuntimeError, OSError):  # the signal came while something was printed
            status.stop()


@contextmanager
def hidden_progress(phases: str) -> Iterator[Callable[[int, int], None]]:
    """Show the progress of hidden scoring. Yield the function that sets the finished and all episodes."""
    began, counts = time.monotonic(), [0, 0]

    def look() -> ProgressStatus:
        done, total = counts
        elapsed_s = time.monotonic() - began
        return ProgressStatus(
            phase=f"scoring ({phases})",
            counts=(f"{done}/{total} hidden episodes",) if total else (),
            elapsed_s=elapsed_s,
            remaining_s=elapsed_s * (total - done) / done if done else None,
            step=str(TENTHS * done // total) if total else "",
        )

    def set_counts(done: int, total: int) -> None:
        counts[:] = [done, total]

    with show_progress(look):
        yield set_counts
