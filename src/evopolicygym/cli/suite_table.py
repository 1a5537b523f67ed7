"""A suite as it goes on: one live table on a terminal, elsewhere a plain line for each change."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from rich.cells import cell_len
from rich.live import Live
from rich.table import Table
from rich.text import Text

from evopolicygym.cli.output import data, one_line, talk
from evopolicygym.suites.status import SuiteRow, SuiteRunStatus

BAR: Final = 12
TENTHS: Final = 10
WIDE: Final = 160  # characters, where nobody said how wide the page is
ROOMY: Final = 110  # enough for bars of full length
SHORT_BAR: Final = 5
LEAST: Final = {"why": 12, "task": 10}  # characters
COLUMNS: Final = ("task", "agent", "seed", "status", "budget", "best", "score", "spent", "left", "why")
RIGHT: Final = {"seed", "best", "score", "spent", "left"}
Show = Callable[[Sequence[SuiteRow]], None]


@contextmanager
def watching(name: str, root: Path) -> Iterator[Show]:
    """Gives what shows the rows as of now."""
    talk.print(f"suite {name}: {root}")
    if talk.is_terminal:
        pace = Pace()
        with Live(console=talk, auto_refresh=False, transient=True) as live:
            yield lambda rows: live.update(rendered(name, rows, pace, talk.width, talk.height), refresh=True)
    else:
        told: dict[str, str] = {}
        yield lambda rows: _tell_changes(rows, told)


class Pace:
    """How long things still take: from what was done since they were first looked at."""

    def __init__(self) -> None:
        self._first: dict[str, tuple[float, float]] = {}

    def left(self, what: str, amount: float) -> str:
        """``amount`` is what is left to do; empty as long as nobody can tell."""
        began, at_first = self._first.setdefault(what, (time.monotonic(), amount))
        done = at_first - amount
        return _duration(amount * (time.monotonic() - began) / done) if done > 0 else ""


def show(name: str, rows: Sequence[SuiteRow]) -> None:
    if not data.is_terminal:
        data.width = WIDE
    data.print(rendered(name, rows, width=data.width))


def rendered(
    name: str, rows: Sequence[SuiteRow], pace: Pace | None = None, width: int = WIDE, height: int | None = None
) -> Table:
    """With ``height``, what matters most of what there is room for. Columns without content are left out."""
    left = pace.left("", sum(map(_left, rows))) if pace else ""
    title = f"{name}: {sum(row.is_over for row in rows)} of {len(rows)} runs scored" + (
        f", {left} left" if left else ""
    )
    room = len(rows) if height is None else max(1, height - 4)
    shown = rows if len(rows) <= room else sorted(rows, key=_dullness)[:room]
    lines = [_one_line(_cells(row, _time_left(row, pace), BAR if width >= ROOMY else SHORT_BAR)) for row in shown]
    table = Table(title=one_line(title), title_justify="left", caption_justify="left", box=None, pad_edge=False)
    widths = _widths(lines, width)
    for heading, wide in widths.items():
        table.add_column(heading, justify="right" if heading in RIGHT else "left", no_wrap=True, width=wide)
    for line in lines:
        table.add_row(*(Text(line[COLUMNS.index(heading)]) for heading in widths))  # not markup
    if len(shown) < len(rows):
        table.caption = f"and {len(rows) - len(shown)} more"
    return table


def _widths(lines: Sequence[tuple[str, ...]], width: int) -> dict[str, int]:
    """Of the columns that have content. Tasks and reasons are cut where there is no room; the rest is shown whole."""
    longest = {heading: max(cell_len(line[i]) for line in lines) for i, heading in enumerate(COLUMNS)}
    wide = {heading: max(length, len(heading)) for heading, length in longest.items() if length}
    over = sum(wide.values()) + 2 * (len(wide) - 1) - width
    for heading, least in LEAST.items():
        if heading in wide and over > 0:
            cut = min(over, max(0, wide[heading] - least))
            wide[heading], over = wide[heading] - cut, over - cut
    return wide


def _dullness(row: SuiteRow) -> int:
    return (
        SuiteRunStatus.RUNNING,
        SuiteRunStatus.FAILED,
        SuiteRunStatus.MISSING,
        SuiteRunStatus.INTERRUPTED,
        SuiteRunStatus.SCORED,
        SuiteRunStatus.WAITING,
    ).index(row.status)


def _left(row: SuiteRow) -> float:
    """Episodes to play: the rest of the budget, and hidden ones as far as they are known."""
    return 0 if row.is_over else row.budget - row.charged + (row.hidden_left or 0)


def _time_left(row: SuiteRow, pace: Pace | None) -> str:
    return pace.left(row.run, _left(row)) if pace and row.status is SuiteRunStatus.RUNNING else ""


def _cells(row: SuiteRow, left: str, bar: int) -> tuple[str, ...]:
    filled = bar * row.charged // max(1, row.budget)
    return (
        row.task.removeprefix("core16/"),
        row.agent,
        str(row.seed),
        _status(row),
        f"{'█' * filled}{'░' * (bar - filled)} {row.charged}/{row.budget}".strip(),
        _number(row.best),
        _number(row.score),
        _spent(row),
        left,
        _why(row),
    )


def _one_line(cells: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(map(one_line, cells))


def _why(row: SuiteRow) -> str:
    """In one line."""
    return " ".join((row.reason or "").split())


def _status(row: SuiteRow) -> str:
    if row.status is not SuiteRunStatus.RUNNING:
        return row.status
    left = f", {row.hidden_left} left" if row.phase in ("validating", "measuring") else ""
    return f"{row.phase or 'starting'}{left}"


def _spent(row: SuiteRow) -> str:
    if row.dollars is not None:
        return f"${row.dollars:.2f}"
    return f"{row.tokens / 1000:.0f}k tokens" if row.tokens is not None else ""


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.5g}"


def _duration(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes // 60} h {minutes % 60:02} min" if minutes >= 60 else f"{minutes} min {rest:02} s"


def _tell_changes(rows: Sequence[SuiteRow], told: dict[str, str]) -> None:
    """A line when a run changes its phase, ends, or has used another tenth of its budget."""
    for row in rows:
        waits = row.reason if row.status is SuiteRunStatus.RUNNING else None
        now = f"{row.status} {row.phase} {TENTHS * row.charged // max(1, row.budget)} {waits}"
        if told.get(row.run) != now and (row.run in told or row.status is not SuiteRunStatus.WAITING):
            score = f", score {row.score:.6g}" if row.score is not None else ""
            why = f": {_why(row)}" if row.reason else ""
            talk.print(f"{row.run}: {_status(row)}, {row.charged}/{row.budget} episodes{score}{why}")
        told[row.run] = now
