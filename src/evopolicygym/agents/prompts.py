"""What an agent is told beyond the files of its workspace: short, complete, and only what is enforced."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

OPENING: Final = """\
Your working directory holds a task. Read AGENTS.md there first: it has the task, the rules and how to submit.

Improve the policy in system/ and submit it with `python3 submit.py CASES`, as often as the budget allows. The budget is
{budget} training episodes; only submitted versions count. Nobody will answer questions: decide yourself, and go on
until the budget is spent. `python3` has numpy and scipy.{left}
"""

CONTINUE: Final = """\
{remaining} of {budget} training episodes are left. Go on: AGENTS.md has the task and the rules, and feedback/ what came
back so far. Improve system/, and submit it with `python3 submit.py CASES`, until the budget is spent. If you are sure
that more episodes cannot help, you may stop; what you have submitted counts.{left}
"""

INTERRUPTED: Final = """\
You were interrupted; your files are as you left them. If a submission was under way, `python3 submit.py` without cases
waits for it; nothing is charged twice.
"""


def opening(budget: int, left: Sequence[str] = ()) -> str:
    """``left``: what else it may use up, such as "3 hours"."""
    return OPENING.format(budget=budget, left=_left(left))


def go_on(remaining: int, budget: int, interrupted: bool = False, left: Sequence[str] = ()) -> str:
    """For a client that keeps no session this is all that it is told, so that it stands by itself."""
    text = CONTINUE.format(remaining=remaining, budget=budget, left=_left(left))
    return f"{INTERRUPTED}\n{text}" if interrupted else text


def _left(amounts: Sequence[str]) -> str:
    return f"\nWhat you may use in all, from now on: {', '.join(amounts)}. Then you are stopped." if amounts else ""
