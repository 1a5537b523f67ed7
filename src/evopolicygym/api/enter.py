"""Enter a policy that was made elsewhere in leaderboards: a run without an agent and without train episodes."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from evopolicygym.api.evaluate import IsolationName, SeedsName, counter, evaluate, policy_folder
from evopolicygym.api.results import Run, load_run
from evopolicygym.errors import UserError

if TYPE_CHECKING:
    from evopolicygym.runs.open_run import OpenRun

PathLike = str | os.PathLike[str]


def enter(
    policy: PathLike,
    task: PathLike,
    name: str,
    *,
    folder: PathLike | None = None,
    budget: int | None = None,
    seeds: SeedsName = "sealed",
    seal_key: PathLike | None = None,
    validation_cases: int | None = None,
    heldout_cases: int | None = None,
    max_candidates: int | None = None,
    text: Literal["brief", "full", "blind"] | None = None,
    variant: Literal["plain", "disguised", "shifted"] | None = None,
    own_models: Literal["allowed", "forbidden"] | None = None,
    feedback: Literal["score", "summary", "trajectory", "video"] | None = None,
    stock: bool | None = None,
    isolation: IsolationName | None = None,
    jobs: int | None = None,
    progress: Callable[[int, int], object] | None = None,
    notice: Callable[[str], object] | None = None,
) -> Run:
    """Enter a policy that was made elsewhere: it is validated and measured like the one that a run selects, and the run
    folder that it gets is a row of leaderboards. No train episode is charged, and the record says that it was entered.

    Args:
        policy: A folder that holds ``policy.py``, or the source of ``policy.py`` itself: a string with a line break.
        task: What ``load_task`` takes.
        name: The entrant's name. Several policies of one name, such as those of several training seeds, are its runs.
        folder: The folder of the run (default: a new one in ``runs/``).
        budget, seeds, seal_key, validation_cases, heldout_cases, max_candidates: As in ``run``. Give those of the runs
            that the policy is compared with: others get a board of their own.
        text, variant, own_models, feedback, stock, isolation, jobs: As in ``run``.
        progress: Called with the number of finished hidden episodes and their total.
        notice: Called with each warning (default: ``warnings.warn``).

    Returns:
        The finished ``Run``.

    Raises:
        UserError: An argument is wrong, or the folder holds a run already.
        PolicyNotLoaded: The policy does not import or construct. Nothing is kept.
        Fault: The judge failed. Nothing is lost: ``finish(folder)`` continues.

    >>> import evopolicygym, tempfile
    >>> small = {"validation_cases": 1, "heldout_cases": 2, "seeds": "paper"}
    >>> run = evopolicygym.enter("examples/acrobot", "core16/acrobot", "hand-made", folder=tempfile.mkdtemp(), **small)
    >>> run.name, run.outcome, run.record.entered, run.record.budget.charged
    ('hand-made', 'scored', True, 0)
    """
    options_given = dict(locals())  # by the names of their parameters
    from evopolicygym.runs.open_run import ENTERED, open_run
    from evopolicygym.runs.options import given_settings
    from evopolicygym.runs.run_status import has_begun

    given = given_settings(task, options_given)
    root = Path(folder) if folder is not None else new_folder(given)
    if has_begun(root):
        raise UserError(f"{root} holds a run already", "Name a new folder.")
    with policy_folder(policy) as system:
        evaluate(
            system, task, cases=[0], seeds=seeds, seal_key=seal_key, text=text, variant=variant or "plain", jobs=1,
            isolation=isolation or "auto", notice=notice,
        )  # fmt: skip
        with open_run(root, ENTERED, **given) as run:
            _play(run, system, progress)
    return load_run(root)


def _play(run: OpenRun, policy: Path, progress: Callable[[int, int], object] | None) -> None:
    from evopolicygym.judge import scoring, submission
    from evopolicygym.runs.serve import finish_run

    submission.execute(run.judge, submission.enter(run.judge, policy))
    scoring.close(run.judge, submission.POLICY_ENTERED)
    finish_run(run, counter(progress, scoring.remaining_episodes(run.judge.state)))


def new_folder(given: Mapping[str, Any]) -> Path:
    """Return the default folder of a policy that is entered."""
    from evopolicygym.runs.folder_names import folder_name
    from evopolicygym.tasks.registry import find_task

    now = f"{datetime.now(UTC):%Y%m%dT%H%M%SZ}"
    return Path("runs", folder_name(find_task(given["task"]).id, given["name"], now))
