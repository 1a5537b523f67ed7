"""Limits of a policy's episode (declared by a task, enforced by the jail, shown to the agent) and of its feedback."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Final

WALL_FACTOR: Final = 10.0
WORKSPACE_FEEDBACK_BYTES: Final = 2 << 30  # of the agent's copy; beyond it, large files of old submissions are removed


@dataclass(frozen=True)
class Limits:
    """CPU time decides, so that a busy machine does not change a score; ``WALL_FACTOR`` times as much wall time is a
    backstop against sleeping. ``episode_cpu_s`` covers the whole life of the policy process, import included.
    ``submission_wall_s`` is the backstop over all episodes of one submission."""

    init_cpu_s: float = 10.0
    act_cpu_s: float = 2.0
    episode_cpu_s: float = 60.0
    memory_mb: int = 2048
    submission_wall_s: float = 4 * 3600.0

    def __post_init__(self) -> None:
        """Reject zero and negative limits, which some kernel interfaces treat as unlimited."""
        for name, value in asdict(self).items():
            if not 0 < value < math.inf:
                raise ValueError(f"{name} must be a finite number greater than 0, not {value}")
