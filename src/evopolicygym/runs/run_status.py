"""Looking at a run without owning it.

Its folder may come from elsewhere: whatever lies in it, the answer is a state that makes sense, or a UserError."""

from __future__ import annotations

from pathlib import Path

from evopolicygym.agents.usage import Usage, total_usage
from evopolicygym.errors import UserError
from evopolicygym.files import open_file
from evopolicygym.judge.events import Opened
from evopolicygym.judge.ledger import MAX_BYTES, LedgerCorrupt, LedgerLine, line_hash, read
from evopolicygym.judge.state import RunPhase, RunState, fold
from evopolicygym.run_paths import RunPaths
from evopolicygym.run_record import load
from evopolicygym.runs import record
from evopolicygym.runs.agent_limits import spending
from evopolicygym.runs.settings import RunSettings


def read_state(root: Path) -> RunState:
    """The state as of now; somebody may be changing it."""
    return _state(root, _lines(root))


def has_begun(run: Path) -> bool:
    """Whether the ledger's first line is whole: one that a crash has torn opens nothing, and is dropped."""
    try:
        with open_file(run, RunPaths(run).ledger.name, MAX_BYTES) as ledger:
            return ledger.readline().endswith(b"\n")
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError:
        return True  # something lies there, and whoever looks closer says what


def has_outcome(root: Path) -> bool:
    """Finished, and the record says so: a crash may have come between the two."""
    lines = _lines(root)
    if _state(root, lines).phase is not RunPhase.FINISHED:
        return False
    try:
        return load(root).ledger_head == line_hash(lines[-1][1])
    except UserError:
        return False


def recorded_settings(root: Path) -> RunSettings:
    """The settings that a run was opened with. Raises UserError where config.toml was altered since."""
    return RunSettings.read(root, _opened(root).settings)


def check_consistent(state: RunState) -> None:
    """Raise LedgerCorrupt for a ledger whose lines are well-formed and still no run: no record follows from it."""
    try:
        record.derive(state, "0" * 64)
        spending(state.turns)
        total_usage([Usage(**turn.usage) for turn in state.turns if turn.usage])
    except Exception as error:  # facts from elsewhere can be wrong in more ways than we can list
        text = f"{type(error).__name__}: {error}"
        raise LedgerCorrupt(f"the ledger makes no sense: no record follows from it ({text[:300]})") from error


def _opened(root: Path) -> Opened:
    first = next(iter(_lines(root)), None)
    event = first[0].event() if first else None
    if not isinstance(event, Opened):
        raise _never_opened(root)
    return event


def _lines(root: Path) -> list[tuple[LedgerLine, bytes]]:
    paths = RunPaths(root)
    if not paths.ledger.exists():
        raise UserError(f"{root} holds no run", "Name the folder of a run: the one with ledger.jsonl.")
    return list(read(paths.ledger))


def _state(root: Path, lines: list[tuple[LedgerLine, bytes]]) -> RunState:
    state = fold(line for line, _ in lines)
    if state.opened is None:
        raise _never_opened(root)
    check_consistent(state)
    return state


def _never_opened(root: Path) -> UserError:
    return UserError(f"the run in {root} was never opened", "Give the command that was to open it again.")
