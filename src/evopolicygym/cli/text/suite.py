"""A suite as text: its estimate, its progress (a live table on a terminal, else a line for each change), its status."""

from __future__ import annotations

import textwrap
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from rich.cells import cell_len
from rich.console import Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from evopolicygym.analysis.formatting import pluralize
from evopolicygym.cli.output import (
    is_live,
    live_width,
    print_hint,
    print_marked,
    print_table,
    print_text,
    stderr,
    stdout,
)
from evopolicygym.cli.progress import HEARTBEAT_S, format_duration, plain_line, progress_lines
from evopolicygym.cli.text.suite_matrix import totals_status
from evopolicygym.judge.submission import BUDGET_SPENT
from evopolicygym.printable import one_line
from evopolicygym.suites.estimate import CostEstimate, SuiteEstimate
from evopolicygym.suites.preflight import CheckKind, PreflightReport
from evopolicygym.suites.status import SuiteRow, SuiteRunStatus, suite_totals
from evopolicygym.tasks.conditions import Variant

BAR: Final = 12
TENTHS: Final = 10
WIDE: Final = 10_000  # characters, where the output has no width of its own: nothing is cut in a pipe
ROOMY: Final = 110  # enough for bars of full length
SHORT_BAR: Final = 5
NARROW: Final = 80  # with less, there are no bars
OPTIONAL: Final = ("best", "conditions", "spent", "seed")  # columns left out one by one where there is no room
LEAST: Final = {"why": 12, "task": 10, "agent": 10}  # characters
REASON_LINES: Final = 4  # below a table that has no room for a column of reasons
COLUMNS: Final = ("task", "agent", "conditions", "seed", "status", "budget", "best", "score", "spent", "left", "why")
RIGHT: Final = {"seed", "best", "score", "spent", "left"}
Show = Callable[[Sequence[SuiteRow]], None]


@contextmanager
def progress(name: str, root: Path) -> Iterator[Show]:
    """Yield a function that shows the current rows."""
    print_hint(f"suite {name}: {root}")
    if is_live():
        pace = Pace()
        with Live(console=stderr, auto_refresh=False, transient=True) as live:
            yield lambda rows: live.update(status_table(name, rows, pace, live_width(), stderr.height), refresh=True)
    else:
        yield LinesOfChanges(name).show


class Pace:
    """Estimate remaining time from what was done since the first look."""

    def __init__(self) -> None:
        self._first: dict[str, tuple[float, float]] = {}

    def time_left(self, name: str, remaining: float) -> str:
        """Return the time for the remaining episodes, or nothing while there is no progress to go by."""
        began, at_first = self._first.setdefault(name, (time.monotonic(), remaining))
        done = at_first - remaining
        return format_duration(remaining * (time.monotonic() - began) / done) if done > 0 else ""


def show_status(name: str, rows: Sequence[SuiteRow]) -> None:
    if not stdout.is_terminal:
        stdout.width = WIDE
    stdout.print(status_table(name, rows, width=stdout.width))


def show_estimate(name: str, estimate: SuiteEstimate, variants: Sequence[Variant]) -> None:
    """Show what the remaining runs may cost. ``variants``: the one of each planned run."""
    print_text(f"{name}: remaining work")
    print_table(
        ("agent", "runs", "done", "episodes at most", "core-hours at most", "dollars, estimated", "basis"),
        [
            (
                cost.agent,
                str(cost.runs),
                str(cost.done),
                str(cost.episodes),
                _hours(cost),
                "unknown" if cost.dollars is None else f"{cost.dollars:.2f}",
                cost.dollars_basis,
            )
            for cost in (*estimate.agents, estimate.total)
        ],
        optional=("done", "core-hours at most", "runs"),  # an estimate of dollars never goes without its basis
    )
    if set(variants) - {Variant.PLAIN}:
        counts = ", ".join(f"{variant} {number}" for variant, number in Counter(variants).items())
        print_text(f"runs by variant: {counts}")
    for line in estimate.notes().splitlines():
        print_text(line)


def show_preflight(report: PreflightReport) -> None:
    """Show what was checked, and what cannot be played, with the remedy."""
    print_text("\npreflight: " + ("everything can be played" if report.ready else "NOT READY"))
    good_tasks = [check for check in report.checks if check.kind is CheckKind.TASK and check.ok]
    for check in report.checks:
        if len(good_tasks) > 1 and check in good_tasks[1:]:
            continue
        mark = Text("  ok " if check.ok else "  no ", style="green" if check.ok else "red")
        more = f" and {len(good_tasks) - 1} more" if check in good_tasks[:1] and len(good_tasks) > 1 else ""
        print_marked(mark, f"{check.kind} {check.name}{more}: {check.detail}")
        if not check.ok and check.remedy:
            print_marked(Text("       -> "), check.remedy)
    if report.unready:
        print_text(f"{pluralize(len(report.unready), 'run')} cannot be played; --skip-unready plays the others")


def _hours(cost: CostEstimate) -> str:
    return "unknown" if cost.core_hours is None else f"{cost.core_hours:.2g}"


def status_table(
    name: str, rows: Sequence[SuiteRow], pace: Pace | None = None, width: int = WIDE, height: int | None = None
) -> Group:
    """Return the rows as a table without empty columns. With ``height``, only the most important rows that fit."""
    title = "\n".join(progress_lines(totals_status(suite_totals(rows), name), width))
    reasons = _reason_lines(rows, width) if width < NARROW else []
    room = len(rows) if height is None else max(1, height - 4 - title.count("\n") - len(reasons))
    shown = rows if len(rows) <= room else sorted(rows, key=_importance)[:room]
    lines = [_one_line(_cells(row, _time_left(row, pace), _bar(width))) for row in shown]
    table = Table(caption_justify="left", box=None, pad_edge=False)
    widths = _widths(lines, width)
    for heading, wide in widths.items():
        table.add_column(heading, justify="right" if heading in RIGHT else "left", no_wrap=True, width=wide)
    for line in lines:
        table.add_row(*(Text(line[COLUMNS.index(heading)]) for heading in widths))  # not markup
    if len(shown) < len(rows):
        table.caption = f"and {len(rows) - len(shown)} more"
    return Group(Text(title), table, *map(Text, reasons))


def _reason_lines(rows: Sequence[SuiteRow], width: int) -> list[str]:
    """Return the reasons of the most important rows, each once."""
    reasons = dict.fromkeys(f"{row.agent}: {_reason(row)}" for row in sorted(rows, key=_importance) if _reason(row))
    return [line for reason in reasons for line in textwrap.wrap(one_line(reason), width)][:REASON_LINES]


def _bar(width: int) -> int:
    return BAR if width >= ROOMY else SHORT_BAR if width >= NARROW else 0


def _widths(lines: Sequence[tuple[str, ...]], width: int) -> dict[str, int]:
    """Return the widths of the columns that have content. Only reasons and names are cut when there is no room."""
    longest = {heading: max(cell_len(line[i]) for line in lines) for i, heading in enumerate(COLUMNS)}
    wide = {heading: max(length, len(heading)) for heading, length in longest.items() if length}
    if width < NARROW:
        wide.pop("why", None)
    for heading in OPTIONAL:
        least = sum(min(length, LEAST.get(name, length)) for name, length in wide.items())
        if least + 2 * (len(wide) - 1) > width:
            wide.pop(heading, None)
    over = sum(wide.values()) + 2 * (len(wide) - 1) - width
    for heading, least in LEAST.items():
        if heading in wide and over > 0:
            cut = min(over, max(0, wide[heading] - least))
            wide[heading], over = wide[heading] - cut, over - cut
    return wide


def _importance(row: SuiteRow) -> int:
    return (
        SuiteRunStatus.RUNNING,
        SuiteRunStatus.FAILED,
        SuiteRunStatus.SUSPENDED,
        SuiteRunStatus.MISSING,
        SuiteRunStatus.INTERRUPTED,
        SuiteRunStatus.UNREADY,
        SuiteRunStatus.SCORED,
        SuiteRunStatus.WAITING,
    ).index(row.status)


def _episodes_left(row: SuiteRow) -> float:
    """Return the episodes to play: the rest of the budget, and hidden ones as far as they are known."""
    return 0 if row.is_over else row.budget - row.charged + (row.hidden_left or 0)


def _time_left(row: SuiteRow, pace: Pace | None) -> str:
    return pace.time_left(row.run, _episodes_left(row)) if pace and row.status is SuiteRunStatus.RUNNING else ""


def _cells(row: SuiteRow, remaining: str, bar: int) -> tuple[str, ...]:
    filled = bar * row.charged // max(1, row.budget)
    return (
        row.task.removeprefix("core16/"),
        row.agent,
        row.conditions,
        str(row.seed),
        _status(row),
        f"{'█' * filled}{'░' * (bar - filled)} {row.charged}/{row.budget}".strip(),
        _number(row.best),
        _number(row.score),
        _spent(row),
        remaining,
        _reason(row),
    )


def _one_line(cells: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(map(one_line, cells))


def _reason(row: SuiteRow) -> str:
    """Return the reason in one line. What a waiting run advises is for its own terminal: a suite needs the cause."""
    if row.is_over and row.reason == BUDGET_SPENT:
        return ""  # as every run should end
    reason = " ".join((row.reason or "").split())
    return reason.partition(". ")[0] if row.status is SuiteRunStatus.RUNNING else reason


def _status(row: SuiteRow) -> str:
    if row.status is not SuiteRunStatus.RUNNING:
        return row.status
    remaining = f", {row.hidden_left} left" if row.phase in ("validating", "measuring") else ""
    return f"{row.phase or 'starting'}{remaining}"


def _spent(row: SuiteRow) -> str:
    if row.dollars is not None:
        return f"${row.dollars:.2f}"
    return f"{row.tokens / 1000:.0f}k tokens" if row.tokens is not None else ""


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.5g}"


class LinesOfChanges:
    """Prints a line when a run changes its phase, begins to wait, ends, or has used another tenth of its budget; and
    the totals once a minute while nothing changes."""

    def __init__(self, name: str) -> None:
        self._name, self._printed_at = name, time.monotonic()
        self._printed: dict[str, tuple[str, bool]] = {}

    def show(self, rows: Sequence[SuiteRow]) -> None:
        now = time.monotonic()
        changes = [row for row in rows if self._print_change(row)]
        if changes:
            self._printed_at = now
        elif now >= self._printed_at + HEARTBEAT_S:
            stderr.print(plain_line(totals_status(suite_totals(rows), self._name)))
            self._printed_at = now

    def _print_change(self, row: SuiteRow) -> bool:
        step = f"{row.status} {row.phase} {TENTHS * row.charged // max(1, row.budget)}"
        waits = row.status is SuiteRunStatus.RUNNING and row.reason is not None
        is_quiet = row.status in (SuiteRunStatus.WAITING, SuiteRunStatus.UNREADY)
        before = step if is_quiet else ""
        last_step, has_waited = self._printed.get(row.run, (before, False))
        has_waited = has_waited and step == last_step
        self._printed[row.run] = step, waits or has_waited
        if step == last_step and (has_waited or not waits):
            return False
        score = f", score {row.score:.6g}" if row.score is not None else ""
        why = f": {reason}" if (reason := _reason(row)) else ""
        stderr.print(f"{row.run}: {_status(row)}, {row.charged}/{row.budget} episodes{score}{why}")
        return True
