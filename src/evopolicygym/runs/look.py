"""Looking at a run without owning it."""

from __future__ import annotations

from pathlib import Path

from evopolicygym.errors import UserError
from evopolicygym.judge.ledger import Line, line_hash, read
from evopolicygym.judge.place import Place
from evopolicygym.judge.state import Phase, RunState, fold
from evopolicygym.records.run import load


def look(root: Path) -> RunState:
    """The state as of now; somebody may be changing it."""
    return _state(root, _lines(root))


def has_outcome(root: Path) -> bool:
    """Finished, and the record says so: a crash may have come between the two."""
    lines = _lines(root)
    if _state(root, lines).phase is not Phase.FINISHED:
        return False
    try:
        return load(root).ledger_head == line_hash(lines[-1][1])
    except UserError:
        return False


def _lines(root: Path) -> list[tuple[Line, bytes]]:
    place = Place(root)
    if not place.ledger.exists():
        raise UserError(f"{root} holds no run", "Name the folder of a run: the one with ledger.jsonl.")
    return list(read(place.ledger))


def _state(root: Path, lines: list[tuple[Line, bytes]]) -> RunState:
    state = fold(line for line, _ in lines)
    if state.opened is None:
        raise UserError(f"the run in {root} was never opened", "Open it with `evopolicygym serve TASK --run FOLDER`.")
    return state
