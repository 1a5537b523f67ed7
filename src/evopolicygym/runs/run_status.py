"""Read the state of a run without owning it.

The folder may come from another person: whatever it holds, the result is a consistent state or a UserError."""

from __future__ import annotations

import os
from pathlib import Path

from evopolicygym.agents.usage import Usage, total_usage
from evopolicygym.errors import UserError
from evopolicygym.files import open_file
from evopolicygym.judge.events import Opened
from evopolicygym.judge.ledger import MAX_BYTES, LedgerCorrupt, LedgerLine, line_hash, read
from evopolicygym.judge.state import RunPhase, RunState, fold
from evopolicygym.run_paths import RunPaths
from evopolicygym.run_record import ImportedFrom, RunRecord, load
from evopolicygym.runs import record
from evopolicygym.runs.agent.limits import spending
from evopolicygym.runs.settings import RunSettings


def read_state(root: Path) -> RunState:
    """Return the state as of now; its owner may be changing it."""
    return _state(root, _lines(root))


def has_begun(run: Path) -> bool:
    """Return whether the ledger's first line is complete. One that a crash cut short opens no run, and is dropped."""
    try:
        with open_file(run, RunPaths(run).ledger.name, MAX_BYTES) as ledger:
            return ledger.readline().endswith(b"\n")
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError:
        return True  # there is something; reading it reports what


def has_outcome(root: Path) -> bool:
    """Return whether the run is finished and its record says so: a crash may have come between the two."""
    return read_outcome(root)[1] is not None


def read_outcome(root: Path) -> tuple[RunState, RunRecord | None]:
    """Return the state, and the record of a run that is finished if the record says so. Both files are read once."""
    lines = _lines(root)
    state = _state(root, lines)
    if state.phase is not RunPhase.FINISHED:
        return state, None
    try:
        run = load(root)
    except UserError:
        return state, None
    return state, run if run.ledger_head == line_hash(lines[-1][1]) else None


def recorded_settings(root: Path) -> RunSettings:
    """Return the settings that a run was opened with. Raise UserError if config.toml was altered since."""
    return RunSettings.read(root, _opened(root).settings)


def check_consistent(state: RunState) -> None:
    """Raise LedgerCorrupt if no record can be derived although each line of the ledger is well-formed."""
    try:
        record.derive(state, "0" * 64)
        spending(state.turns)
        total_usage([Usage(**turn.usage) for turn in state.turns if turn.usage])
    except Exception as error:  # facts of a foreign folder can be wrong in more ways than we can list
        text = f"{type(error).__name__}: {error}"
        raise LedgerCorrupt(f"the ledger contradicts itself: no record follows from it ({text[:300]})") from error


def _opened(root: Path) -> Opened:
    first = next(iter(_lines(root)), None)
    event = first[0].event() if first else None
    if not isinstance(event, Opened):
        raise _never_opened(root)
    return event


def _lines(root: Path) -> list[tuple[LedgerLine, bytes]]:
    paths = RunPaths(root)
    refuse_imported(paths)
    if not paths.ledger.exists():
        raise UserError(f"{root} holds no run", "Name the folder of a run: the one with ledger.jsonl.")
    return list(read(paths.ledger))


def refuse_imported(paths: RunPaths) -> None:
    """Raise UserError for an imported run: another judge played it, and nothing of it can be played again."""
    if not os.path.lexists(paths.ledger) and (imported := _imported(paths)):
        raise UserError(
            f"{paths.root} is imported from the {imported.words}: it has no ledger and no hidden cases, so nothing of "
            "it can be played or checked again",
            "leaderboard, compare, analyze and report read it.",
        )


def _imported(paths: RunPaths) -> ImportedFrom | None:
    try:
        return load(paths.root).imported
    except UserError:
        return None


def _state(root: Path, lines: list[tuple[LedgerLine, bytes]]) -> RunState:
    state = fold(line for line, _ in lines)
    if state.opened is None:
        raise _never_opened(root)
    check_consistent(state)
    return state


def _never_opened(root: Path) -> UserError:
    return UserError(f"the run in {root} was never opened", "Repeat the command that should have opened it.")
