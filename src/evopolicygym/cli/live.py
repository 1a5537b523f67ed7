"""A run as it goes on: a live line on a terminal, elsewhere a plain line for each tenth of the budget."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from rich.text import Text

from evopolicygym.cli.numbers import counted
from evopolicygym.cli.output import one_line, talk
from evopolicygym.judge.state import RunPhase, RunState

BAR: Final = 24
REFRESH_S: Final = 0.25


@contextmanager
def watching(look: Callable[[], RunState]) -> Iterator[None]:
    """``look`` gives the state of the run as of now."""
    done = threading.Event()
    show = _live if talk.is_terminal else _plain
    thread = threading.Thread(target=show, args=(look, done), daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


def line(state: RunState) -> str:
    """Budget spent, best so far, phase."""
    filled = BAR * state.charged // max(1, state.budget)
    means = [one.judged.tally.mean for one in state.submissions.values() if one.judged and one.judged.tally]
    best = f"best train mean {max(means):.5g}" if means else "nothing scored yet"
    bar = "█" * filled + "░" * (BAR - filled)
    submissions = counted(len(state.submissions), "submission")
    return f"{bar} {state.charged}/{state.budget} episodes, {submissions}, {best}, {_phase(state)}"


def _phase(state: RunState) -> str:
    if state.phase is RunPhase.OPEN:
        return f"{state.running.name} is running" if state.running else _turn(state)
    if state.phase is RunPhase.CLOSED:
        distinct = {one.charged.checkpoint.hash for one in state.candidates}
        return f"validating: {len(state.validation)} of {len(distinct)} checkpoints"
    return "measuring on held-out" if state.phase is RunPhase.SELECTED else "finished"


def _turn(state: RunState) -> str:
    trouble = state.turns[-1].failure if state.turns else None
    return f"turn {len(state.turns) + 1}{f' (the last one failed: {trouble})' if trouble else ''}"


def _live(look: Callable[[], RunState], done: threading.Event) -> None:
    with talk.status("") as status:
        while not done.wait(REFRESH_S):
            status.update(Text(one_line(line(look()))))  # not markup


def _plain(look: Callable[[], RunState], done: threading.Event) -> None:
    told = ""
    while not done.wait(REFRESH_S):
        state = look()
        if (step := _step(state)) != told:
            talk.print(line(state))
            told = step


def _step(state: RunState) -> str:
    """What is told once. A turn that is written down when the run is closed already is no news."""
    if state.phase is not RunPhase.OPEN:
        return state.phase
    return f"{10 * state.charged // max(1, state.budget)} {_turn(state)}"
