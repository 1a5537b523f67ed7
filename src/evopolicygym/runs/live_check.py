"""Play one tiny turn of an agent in its sandbox: whether it starts there, reaches its model, and answers."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from typing import Final

from evopolicygym.agents.failures import FailureKind, TurnFailure
from evopolicygym.agents.turn import Turn
from evopolicygym.run_paths import RunPaths
from evopolicygym.runs.agent_limits import TurnProgress
from evopolicygym.runs.agent_process import TurnRequest
from evopolicygym.runs.agent_setup import set_up_agent
from evopolicygym.runs.settings import AgentSettings

PROMPT: Final = "This is a test of the connection. Do not use any tool. Reply with the single word: ready"
NO_API: Final = "http://127.0.0.1:9/"  # of a run; there is none to submit to
PATIENCE_S: Final = 180.0


def play_live_turn(settings: AgentSettings) -> Turn:
    """Return how the turn ended. Raises UserError if the agent cannot be started at all. Nothing is kept."""
    setup = set_up_agent(settings)
    with tempfile.TemporaryDirectory(prefix="evopolicygym-check-") as folder:
        paths = RunPaths(Path(folder).resolve() / "run")
        paths.make()
        paths.system.mkdir(parents=True, exist_ok=True)
        deadline = time.monotonic() + PATIENCE_S

        def must_end(progress: TurnProgress) -> TurnFailure | None:
            is_late = time.monotonic() > deadline
            return TurnFailure(FailureKind.TIMEOUT, f"no answer in {PATIENCE_S:g} seconds") if is_late else None

        runner = setup.make_runner(paths, NO_API)
        try:
            return runner.play_turn(TurnRequest(1, PROMPT, None, None, must_end))
        finally:
            runner.close()
