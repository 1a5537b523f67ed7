"""The status of a suite as a matrix: a row for each task, a column for each agent, a short code in each cell."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from statistics import fmean
from typing import Final

from evopolicygym.cli.output import print_text, stdout
from evopolicygym.cli.progress import ProgressStatus, progress_lines
from evopolicygym.printable import one_line
from evopolicygym.suites.status import SuiteRow, SuiteRunStatus, SuiteTotals, suite_totals

GAP: Final = 2
TASK_COLUMNS: Final = 22
LEAST_TASK: Final = 14
CELL_COLUMNS: Final = 10  # five agents and the tasks fit 80 columns
REASONS: Final = 5
WIDE: Final = 200  # columns, where the output has no width of its own
CODES: Final = {
    SuiteRunStatus.SCORED: "d",
    SuiteRunStatus.RUNNING: "r",
    SuiteRunStatus.SUSPENDED: "s",
    SuiteRunStatus.FAILED: "f",
    SuiteRunStatus.MISSING: "m",
    SuiteRunStatus.INTERRUPTED: "i",
    SuiteRunStatus.UNREADY: "u",
    SuiteRunStatus.WAITING: "w",
}
MEANINGS: Final = {
    "d": "done",
    "r": "running, with episodes used",
    "s": "suspended",
    "f": "failed",
    "m": "missing (no score that counts)",
    "i": "interrupted",
    "u": "unready (left out)",
    "w": "waiting",
}
EXPLAINED: Final = (
    SuiteRunStatus.FAILED,
    SuiteRunStatus.SUSPENDED,
    SuiteRunStatus.MISSING,
    SuiteRunStatus.UNREADY,
)


def show_matrix(name: str, rows: Sequence[SuiteRow]) -> None:
    """Print totals, matrix and legend to stdout."""
    width = stdout.width if stdout.is_terminal else WIDE
    for line in matrix_lines(name, rows, width):
        stdout.print(line)
    reasons: dict[str, list[SuiteRow]] = {}
    for row in rows:
        if row.status in EXPLAINED:
            reasons.setdefault(f"{row.status}: {' '.join((row.reason or '').split())}", []).append(row)
    for reason, group in list(reasons.items())[:REASONS]:
        print_text(f"{group[0].run if len(group) == 1 else f'{len(group)} runs'} {reason}")
    if len(reasons) > REASONS:
        print_text(f"and {len(reasons) - REASONS} more reasons; --verbose shows every run")


def matrix_lines(name: str, rows: Sequence[SuiteRow], width: int) -> list[str]:
    """Return the lines of totals, matrix and legend, none wider than ``width``."""
    lines = progress_lines(totals_status(suite_totals(rows), name), width)
    cells = _cells(rows)
    tasks = list(dict.fromkeys(task for task, _ in cells))
    agents = list(dict.fromkeys(agent for _, agent in cells))
    first = max(map(len, tasks), default=0)
    cell = max(map(len, (*cells.values(), *agents)), default=1)
    if first + len(agents) * (cell + GAP) > width:
        cell = max(map(len, (*cells.values(), *(agent[:CELL_COLUMNS] for agent in agents))), default=1)
        if width < WIDE:
            first = min(first, max(LEAST_TASK, min(TASK_COLUMNS, width - 5 * (cell + GAP))))
    names = _short_names(agents, cell)
    per_block = max(1, (width - first) // (cell + GAP))
    for start in range(0, len(agents), per_block):
        block = agents[start : start + per_block]
        lines += ["", _line("", [names[agent] for agent in block], first, cell)]
        for task in tasks:
            lines.append(_line(_cut(task, first), [cells.get((task, agent), "") for agent in block], first, cell))
    return [*lines, *_legend(names, rows, width)]


def totals_status(totals: SuiteTotals, name: str) -> ProgressStatus:
    """Return the totals of a suite as a status for a progress line."""
    others = [f"{count} {status}" for status, count in totals.statuses.items() if status != "scored"]
    return ProgressStatus(
        phase=f"{name}: {', '.join(others) or 'all done'}",
        counts=(f"{totals.scored}/{totals.runs} runs scored", f"{totals.episodes}/{totals.budget} episodes"),
        elapsed_s=totals.elapsed_s,
        remaining_s=totals.remaining_s,
        tokens=totals.tokens,
        dollars=totals.dollars,
    )


def _cells(rows: Sequence[SuiteRow]) -> dict[tuple[str, str], str]:
    groups: dict[tuple[str, str], list[SuiteRow]] = {}
    for row in rows:
        task = one_line(" ".join((row.task.removeprefix("core16/"), row.conditions)).strip())
        groups.setdefault((task, one_line(row.agent)), []).append(row)
    return {key: _cell(group) for key, group in groups.items()}


def _cell(group: Sequence[SuiteRow]) -> str:
    """Return the mean score if all repeats are done, else how many are how far."""
    scores = [row.score for row in group if row.is_over and row.score is not None]
    if len(scores) == len(group):
        return f"{fmean(scores):.5g}"
    if len(group) == 1:
        row = group[0]
        is_running = row.status is SuiteRunStatus.RUNNING
        return f"r {row.charged}/{row.budget}" if is_running else CODES[row.status]
    counts = Counter(CODES[row.status] for row in group)
    parts = [f"{counts[code]}{code}" for code in CODES.values() if counts[code]]
    text = " ".join(parts)
    return text if len(text) <= CELL_COLUMNS else f"{' '.join(parts[:2])}+"


def _short_names(agents: Sequence[str], width: int) -> dict[str, str]:
    """Return names that fit; where two would be equal, numbers, which the legend explains."""
    short = {agent: _cut(agent, width) for agent in agents}
    counts = Counter(short.values())
    return {
        agent: f"agent {number}"[:width] if counts[text] > 1 else text
        for number, (agent, text) in enumerate(short.items(), 1)
    }


def _cut(text: str, width: int) -> str:
    return text if len(text) <= width else f"{text[: max(1, width - 2)]}.."


def _line(task: str, cells: Sequence[str], first: int, cell: int) -> str:
    return f"{task:<{first}}{''.join(f'{text:>{cell + GAP}}' for text in cells)}".rstrip()


def _legend(names: dict[str, str], rows: Sequence[SuiteRow], width: int) -> list[str]:
    codes = dict.fromkeys(CODES[status] for status in CODES if any(row.status is status for row in rows))
    parts = [f"{code} {MEANINGS[code]}" for code in codes if code != "d"]
    parts += ["a number: done, mean score"] if "d" in codes else []
    renamed = [f"{short} = {agent}" for agent, short in names.items() if short != agent]
    return ["", *_wrapped([*parts, *renamed], width)]


def _wrapped(parts: Sequence[str], width: int) -> list[str]:
    """Return parts in lines of at most ``width`` columns, broken between them where that is possible."""
    lines = [""]
    for part in parts:
        joined = f"{lines[-1]}; {part}" if lines[-1] else part
        if len(joined) <= width:
            lines[-1] = joined
        else:
            lines.append(part[:width])
    return [line for line in lines if line]
