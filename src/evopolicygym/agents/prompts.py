"""Prompts of an agent: short, complete, and only with limits that are enforced. The rest is in its workspace."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

OPENING: Final = """\
Your working directory holds a task. AGENTS.md there has the task, the rules and how to submit: read it first, unless
you have been given its text already.

Improve the policy in system/ and submit it with `python3 submit.py CASES`, as often as the budget allows. The budget is
{budget} training episodes; only submitted versions count. There is no one to answer questions: decide yourself, and
continue while budget is left and you see a way to do better. `python3` has numpy and scipy.{limits}
"""

CONTINUE: Final = """\
{remaining} of {budget} training episodes are left. Continue: AGENTS.md has the task and the rules, and feedback/ the
results so far. Improve system/ and submit it with `python3 submit.py CASES`, while budget is left and you see a way to
do better. Otherwise you may stop; what you have submitted counts.{limits}
"""

INTERRUPTED: Final = """\
You were interrupted; your files are as you left them. If a submission was running, `python3 submit.py` without cases
waits for it; nothing is charged twice.
"""


NEW_CONVERSATION: Final = """\
This is a new conversation; earlier ones about this task cannot be continued. Your files are as they were left, and
feedback/ has all results. {progress}
"""


def opening(budget: int, limits: Sequence[str] = ()) -> str:
    """Return the first prompt. ``limits`` are what is left of the agent's limits, such as "3 hours"."""
    return OPENING.format(budget=budget, limits=_limits_line(limits))


def continuing(
    remaining: int, budget: int, interrupted: bool = False, limits: Sequence[str] = (), progress: str = ""
) -> str:
    """Return the prompt of a later turn. ``progress``: what was submitted so far, for a model that does not remember
    the earlier turns."""
    text = CONTINUE.format(remaining=remaining, budget=budget, limits=_limits_line(limits))
    text = f"{INTERRUPTED}\n{text}" if interrupted else text
    return f"{NEW_CONVERSATION.format(progress=progress)}\n{text}" if progress else text


def progress(submissions: int, best: tuple[str, float] | None) -> str:
    """Say in words what was submitted so far; ``best`` is the id and the mean return of the best submission."""
    if not submissions:
        return "Nothing was submitted so far."
    count = f"There {'was 1 submission' if submissions == 1 else f'were {submissions} submissions'} so far"
    if best is None:
        return f"{count}; none could be played."
    return f"{count}; the best one on training cases is {best[0]}, with a mean return of {best[1]:g}."


def _limits_line(amounts: Sequence[str]) -> str:
    return f"\nYour limits from now on: {', '.join(amounts)}. You are stopped when one is reached." if amounts else ""
