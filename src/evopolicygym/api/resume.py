"""Continue a run with the settings that it was opened with."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evopolicygym.api.evaluate import EngineChoice, IsolationName, member
from evopolicygym.api.results import Run, load_run
from evopolicygym.api.run import play_and_load
from evopolicygym.errors import UserError

if TYPE_CHECKING:
    from evopolicygym.run_progress import RunProgress
    from evopolicygym.runs.settings import AgentSettings, RunSettings

PathLike = str | os.PathLike[str]


def resume(
    folder: PathLike,
    *,
    task: PathLike | None = None,
    trust_agent: bool = False,
    seal_key: PathLike | None = None,
    isolation: IsolationName | None = None,
    jobs: int | None = None,
    engine: EngineChoice | None = None,
    ray_address: str | None = None,
    progress: Callable[[RunProgress], object] | None = None,
    notice: Callable[[str], object] | None = None,
) -> Run:
    """Continue a run that was interrupted or suspended, with the settings that it was opened with, and return it: what
    the command `evopolicygym run --resume` does. A finished run is returned as it is.

    Args:
        folder: The run's folder. The run of a Python function is continued by the same call of ``run`` instead.
        task: The run's task again, where another installation opened the run and its task is an own module or file:
            that code runs with all your rights.
        trust_agent: Give the agent what the run's config.toml grants it beyond the usual (hosts, files, variables, no
            isolation), although another installation opened the run.
        seal_key, isolation, jobs, engine, ray_address: As in ``run``; what is not given stays as it was.
        progress, notice: As in ``run``.

    Raises:
        UserError: There is no run in the folder, it was served and has no agent, an argument does not fit it, or what
            it grants its agent needs ``trust_agent``: nothing was started.
        Fault: The judge itself failed, and could not continue.
        RunSuspended: As in ``run``.

    >>> import evopolicygym
    >>> evopolicygym.resume("examples/runs/acrobot__tuner__s0").outcome
    'scored'
    """
    from evopolicygym.runs.agent.setup import set_up_agent
    from evopolicygym.runs.settings import EngineName, IsolationChoice
    from evopolicygym.runs.trust import check_grants
    from evopolicygym.tasks.registry import absolute_name

    root = Path(folder)
    options: dict[str, Any] = {
        "task": task and absolute_name(os.fspath(task)),
        "seal_key": seal_key and Path(seal_key).resolve(),
        "isolation": isolation and member(IsolationChoice, isolation, "isolation"),
        "jobs": jobs,
        "engine": engine and member(EngineName, engine, "engine"),
        "ray_address": ray_address,
    }
    given = {name: value for name, value in options.items() if value is not None}

    def check_consent(settings: RunSettings, is_own: bool) -> None:
        if trust_agent:
            return
        try:
            check_grants(settings, {}, [], is_own=is_own)
        except UserError as error:
            raise UserError(error.message, "Check its config.toml; to allow it, pass trust_agent=True.") from error

    agent = agent_to_resume(root, given, check_consent)
    return play_and_load(root, set_up_agent(agent), given, progress, notice) if agent else load_run(root)


def agent_to_resume(
    root: Path, given: dict[str, Any], check_consent: Callable[[RunSettings, bool], None]
) -> AgentSettings | None:
    """Return the agent of a run that continues with ``given`` settings, or None if the run is finished.

    ``check_consent`` gets the run's settings and whether this installation opened it. It raises UserError for what the
    agent must not get.
    """
    from evopolicygym.execution.slots import check_jobs
    from evopolicygym.run_paths import RunPaths
    from evopolicygym.runs.run_status import has_outcome, read_state, recorded_settings
    from evopolicygym.runs.trust import is_signed_here, resume_settings

    settings = recorded_settings(root)
    (given.get("engine") or settings.engine).check_address(given.get("ray_address"))
    if has_outcome(root):
        resume_settings(settings, given, RunPaths(root))
        if jobs := given.get("jobs"):
            check_jobs(jobs)
        return None
    check_consent(settings, is_signed_here(read_state(root).opened))
    if settings.agent is None:
        raise UserError(
            f"{root} has no agent: it was opened with `evopolicygym serve`",
            f"Continue it with `evopolicygym serve TASK --run {root}`.",
        )
    return settings.agent
