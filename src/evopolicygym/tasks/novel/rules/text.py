"""The texts about a generated grid world. Their first sentences are the brief ones and give no rule away."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from evopolicygym.tasks.novel.rules.chain import (
    AGENT,
    DRAWN,
    FLOOR,
    FORWARD,
    LET_GO,
    NOTHING,
    OFF_CHAIN,
    OUTSIDE,
    STUNNED,
    TURN_LEFT,
    TURN_RIGHT,
    VERB,
    WAIT,
    WALL,
    Role,
)

if TYPE_CHECKING:
    from evopolicygym.tasks.novel.rules.world import RulesWorld

FIXED: Final = {
    FLOOR: "floor",
    WALL: "wall",
    OUTSIDE: "outside",
    NOTHING: "nothing",
    STUNNED: "the agent while it cannot act",
    AGENT: "the agent, facing up",
    AGENT + 1: "the agent, facing right",
    AGENT + 2: "the agent, facing down",
    AGENT + 3: "the agent, facing left",
}
MEANINGS: Final = {
    **dict(enumerate(("move up", "move right", "move down", "move left"))),
    WAIT: "wait",
    LET_GO: "let go of what is held, which vanishes",
    TURN_LEFT: "turn left",
    TURN_RIGHT: "turn right",
    FORWARD: "move forward",
}


def describe_world(world: RulesWorld) -> dict[str, Any]:
    """Return the texts of a world."""
    text = _WorldText(world)
    horizon = world.horizon
    links = "; ".join(f"link {link}: {face:g} and {do:g}" for link, (face, do) in enumerate(world.shares, start=1))
    return {
        "title": "A world of rooms and things",
        "objective": "Find out how this world works and reach its goal, in as few steps as possible.",
        "observation_notes": f"Codes of what is near and of what is at hand. {text.observation()}",
        "action_notes": f"Each action does one thing. {text.actions()}",
        "reward": (
            "Returns are between 0 and 1; a higher return means that more of the way to the goal was found, and that "
            "the goal was reached sooner. Each link of the chain gives two rewards, the first time in an episode: for "
            f"facing the object that it needs, and for doing it ({links}). The last link is the goal; at step t it "
            f"also gives {world.prize:g} * (1 - 0.9 * t / {horizon})."
        ),
        "termination": f"At the goal, or after {horizon} steps.",
        "start": (
            "Rooms, doors, objects and the start are new in every case; which objects there are and what they do is "
            "not. The agent holds nothing."
        ),
        "dynamics": "\n".join(f"- {line}" for line in text.dynamics()),
    }


class _WorldText:
    def __init__(self, world: RulesWorld) -> None:
        self._world, self._book = world, world.book

    def observation(self) -> str:
        world, side = self._world, 2 * self._world.plan.margin + 1
        held, pulse = (np.argwhere(world.order == side * side + k)[0].tolist() for k in (0, 1))
        corner, right, below = (np.argwhere(world.order == k)[0].tolist() for k in (0, 1, side))
        clock = ", ".join(str(world.codes[kind]) for kind in self._book.pulses)
        kinds = [kind for kind, role in enumerate(self._book.roles) if role is not Role.PULSE]
        codes = ", ".join(f"{world.codes[kind]} {self._kind(kind)}" for kind in kinds)
        return (
            f"The view has {side} x {side} cells with the agent in the middle: its upper left cell is at index "
            f"{corner}, the cell to the right of that at {right}, the one below it at {below}, and so on. What is held "
            f"is at {held}. A clock that shows one after the other of {clock} is at {pulse}.\n\nCodes: {codes}."
        )

    def actions(self) -> str:
        meanings = [MEANINGS.get(meaning) or f"verb {meaning - VERB + 1}" for meaning in self._world.meanings]
        listed = "; ".join(f"{action}: {meaning}" for action, meaning in enumerate(meanings))
        turning = "" if FORWARD in self._world.meanings else " Moving also turns the agent to that side."
        return f"{listed}.{turning}"

    def dynamics(self) -> Iterator[str]:
        """Yield all rules, one sentence or two each."""
        book = self._book
        walkable = [kind for kind in range(DRAWN, len(book.roles)) if book.roles[kind] in (Role.PAD, Role.HAZARD)]
        names = ", ".join(self._name(kind) for kind in walkable)
        yield f"The agent can walk on floor and on {names}. Moving against anything else leaves it where it is."
        yield "A verb acts on the cell ahead. It does nothing unless a rule below fits what is held and what is ahead."
        for rule in book.rules:
            link = "" if rule.link == OFF_CHAIN else f" Link {rule.link + 1}."
            gate = f", and {self._name(rule.opens)} turns to floor" if rule.opens else ""
            leaves = f"; the target turns into {self._name(rule.leaves)}" if rule.leaves != rule.target else ""
            yield (
                f"Verb {rule.verb + 1} on {self._name(rule.target)}, holding {self._name(rule.held)}: "
                f"then {self._name(rule.gives)} is held{leaves}{gate}.{link}"
            )
        for kind, (steps, ripe) in book.ripening.items():
            yield f"{self._name(kind)} turns into {self._name(ripe)} after {steps} steps."
        yield from self._push()
        effect = f"cannot act for {book.stun} steps" if book.stun else "is back at the start"
        yield f"An agent that walks on {self._name(book.hazard)} {effect}."

    def _push(self) -> Iterator[str]:
        if not (push := self._book.push):
            return
        gate = f", and {self._name(push.opens)} turns to floor" if push.opens else ""
        yield (
            f"Moving against {self._name(push.block)} pushes it by one cell, over floor but not into doorways or onto "
            "the start. If it cannot be pushed, it returns to where it stood at first, unless the agent is there."
        )
        yield (
            f"{self._name(push.block)} pushed onto {self._name(push.pad)} vanishes; {self._name(push.pad)} turns into "
            f"{self._name(push.leaves)}{gate}. Link {push.link + 1}."
        )

    def _kind(self, kind: int) -> str:
        return FIXED.get(kind) or self._world.names[kind]

    def _name(self, kind: int) -> str:
        return f"{self._kind(kind)} ({self._world.codes[kind]})"
