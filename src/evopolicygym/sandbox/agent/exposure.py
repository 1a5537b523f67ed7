"""What of this machine can simulate: what is hidden from an agent, and what it sees nevertheless."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from evopolicygym.sandbox.agent.view import holes_among, searched_trees
from evopolicygym.sandbox.packages import simulators_beneath, simulators_in, survey
from evopolicygym.sandbox.runtime import is_within, outermost


@dataclass(frozen=True)
class Exposure:
    """``hidden``: folders and files that agents do not see; ``hidden_simulators``: those among them or in them by name;
    ``seen``: simulators that are shown; ``unsearched``: trees with too many folders to look at all of them."""

    hidden: tuple[str, ...]
    hidden_simulators: tuple[str, ...]
    seen: tuple[str, ...]
    unsearched: tuple[str, ...]

    def residues(self) -> tuple[str, ...]:
        """In words, for the record, which has no paths of this machine."""
        names = ", ".join(sorted({os.path.basename(path) for path in self.seen}))
        seen = (f"off-budget simulation: among what is shown to it there is {names}",)
        unsearched = ("not all of what is shown to it was searched for simulators: it has too many folders",)
        return (*(seen if self.seen else ()), *(unsearched if self.unsearched else ()))


def exposure(readable: Iterable[Path] = (), libraries: Iterable[Path] = ()) -> Exposure:
    """For an agent that is shown ``readable`` whole, and ``libraries`` of Pythons without their packages."""
    shown = outermost(os.path.realpath(path) for path in readable)
    searched = searched_trees(libraries)
    holes = holes_among(searched, shown)
    hidden = [path for hole in holes for path in simulators_in(hole)]
    there = [path for tree in searched for path in survey(tree).simulators if not is_within(path, holes)]
    given = [path for tree in shown for path in simulators_beneath(tree) if is_within(path, shown)]
    return Exposure(
        hidden=holes,
        hidden_simulators=tuple(path for path in hidden if not is_within(path, shown)),
        seen=tuple(sorted({path for path in (*there, *given) if is_within(path, (*searched, *shown))})),
        unsearched=tuple(tree for tree in (*searched, *shown) if not survey(tree).complete),
    )
