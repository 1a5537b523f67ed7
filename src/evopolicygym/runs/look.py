"""Looking at a run without owning it."""

from __future__ import annotations

from pathlib import Path

from evopolicygym.errors import UserError
from evopolicygym.judge.ledger import read
from evopolicygym.judge.place import Place
from evopolicygym.judge.state import RunState, fold


def look(root: Path) -> RunState:
    """The state as of now; somebody may be changing it."""
    place = Place(root)
    if not place.ledger.exists():
        raise UserError(f"{root} holds no run", "Name the folder of a run: the one with ledger.jsonl.")
    state = fold(line for line, _ in read(place.ledger))
    if state.opened is None:
        raise UserError(f"the run in {root} was never opened", "Open it with `evopolicygym serve TASK --run FOLDER`.")
    return state
