"""Follow a run while it is played, or read one that is over, event by event."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from evopolicygym.runs.tail import TailEvent


def tail(run: str | os.PathLike[str], *, follow: bool = True) -> Iterator[TailEvent]:
    """Yield what happens in a run, from its beginning: turns, what the agent says and does, submissions with their
    scores, the outcome. Works from any process, and locks nothing.

    Args:
        run: The run's folder, which may come from another person. If it does not exist yet, it is waited for.
        follow: Wait for more until the run is finished or suspended; without it, yield what there is now.

    Returns:
        An iterator of ``TailEvent``: ``at``, ``kind``, ``text``, ``name``, ``turn``, ``submission`` and ``data``.

    Raises:
        UserError: There is no run in the folder and it is not followed, or the run is an imported one.

    >>> import evopolicygym
    >>> events = list(evopolicygym.tail("examples/runs/acrobot__tuner__s0"))
    >>> [event.kind for event in (events[0], events[-1])], events[1].text
    (['opened', 'finished'], 'turn 1 begins')
    """
    from evopolicygym.runs.tail import follow_run

    return follow_run(Path(run), follow)
