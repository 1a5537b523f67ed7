"""Evaluate one policy on chosen cases, in the jail, in parallel."""

from __future__ import annotations

import errno
import os
import re
import tempfile
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from itertools import count
from numbers import Integral
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

from evopolicygym.errors import UserError

if TYPE_CHECKING:
    from evopolicygym.execution.engine import Engine
    from evopolicygym.execution.evaluation import Evaluation
    from evopolicygym.execution.records import Node
    from evopolicygym.runs.settings import RunSettings
    from evopolicygym.sandbox.checkpoints import Checkpoint
    from evopolicygym.tasks.splits import Split
    from evopolicygym.tasks.task import Task

SplitName = Literal["train", "validation", "heldout"]
SeedsName = Literal["paper", "sealed"]
IsolationName = Literal["auto", "A", "B", "none"]
SHOWN: Final = 80  # characters of a wrong argument in a message
EngineChoice = Literal["local", "ray"]


def evaluate(
    policy: str | os.PathLike[str],
    task: str | os.PathLike[str] | Task,
    *,
    split: SplitName = "train",
    seeds: SeedsName = "sealed",
    cases: str | Sequence[int] | None = None,
    jobs: int | None = None,
    isolation: IsolationName = "auto",
    record: str | os.PathLike[str] | None = None,
    video: bool = False,
    stock: bool = False,
    salt: str | None = None,
    seal_key: str | os.PathLike[str] | None = None,
    text: Literal["brief", "full", "blind"] | None = None,
    variant: Literal["plain", "disguised", "shifted"] = "plain",
    engine: EngineChoice = "local",
    ray_address: str | None = None,
    progress: Callable[[int, int], object] | None = None,
    notice: Callable[[str], object] | None = None,
) -> Evaluation:
    """Play a policy on cases of a task, each episode in a fresh jailed process, and return the results.

    Args:
        policy: A folder that holds ``policy.py``, or the source of ``policy.py`` itself: a string with a line break.
        task: What ``load_task`` takes, or a task that it returned.
        split: Which list of cases: ``train``, ``validation`` or ``heldout``.
        seeds: ``sealed`` (cases from your own sealing key) or ``paper`` (the public cases of the paper).
        cases: Indices, as a list or as ``"0-7,12"``. Default: the first 8 train, 16 validation or 32 held-out cases.
        jobs: Episodes at a time (default: the cores of this machine).
        isolation: ``auto`` is the best of levels A and B; ``none`` runs the policy without a jail.
        record: A new folder for a trajectory of each episode; with ``video`` also a video of each.
        stock: Play the stock environment, not its bit-exact fast version.
        salt: The ``salt`` of an earlier evaluation, to repeat the random numbers that the policy drew.
        seal_key: The key file of sealed cases, where it is not the default one.
        text: Text level of the run that the policy is from: at ``full`` the spaces have names. variant: As in ``run``.
        engine: ``local``, or ``ray`` to play on the cluster at ``ray_address`` (docs/cluster.md).
        progress: Called with the number of finished episodes and their total: at the start, and after each episode.
        notice: Called with each warning, such as a simulator that is not of the pinned version (default:
            ``warnings.warn``).

    Returns:
        An ``Evaluation``: ``episodes``, ``returns``, ``mean``, ``std``, ``to_pandas()``.

    Raises:
        UserError: An argument is wrong, or no isolation that was asked for holds on this machine.
        PolicyNotLoaded: The policy does not import or construct. The exception holds its error and output.

    >>> import evopolicygym
    >>> source = '''
    ... class Policy:
    ...     def __init__(self, obs_space, action_space, env_meta): ...
    ...     def reset(self, episode_index): ...
    ...     def act(self, obs):
    ...         return 2 if obs[5] > 0 else 0
    ... '''
    >>> result = evopolicygym.evaluate(source, "core16/acrobot", seeds="paper", cases=[0, 1])
    >>> result.returns
    (-159.0, -99.0)
    >>> result.mean
    -129.0
    """
    from evopolicygym.execution.evaluation import evaluate_folder
    from evopolicygym.sandbox.checkpoints import SnapshotRefused
    from evopolicygym.tasks import pins
    from evopolicygym.tasks import splits as splitting

    _check_policy(policy)
    notify = notice or warnings.warn
    chosen_split = member(splitting.Split, split, "split")
    named = _task(task)
    settings = _settings(named, seeds, _path(seal_key), text, variant)
    shown_task, splits = settings.seen(named), settings.splits()
    chosen = splitting.cases(splits, shown_task.id, chosen_split, _indices(cases, chosen_split))
    salt_of = _salt_of(salt, _path(seal_key), notify)
    for mismatch in pins.version_mismatches(pins.distributions(shown_task.requires)):
        notify(mismatch)
    kind = _engine(shown_task, min(checked_jobs(jobs), len(chosen)), isolation, engine, ray_address)
    with policy_folder(policy) as folder:
        target = _recording(folder, _path(record), video)
        is_public = chosen_split is splitting.Split.TRAIN
        try:
            with (
                nullcontext() if is_public else _hidden_cases(shown_task, splits.id, policy),
                kind(video=video, stock=stock) as started,
            ):
                report_refused_nodes(started.nodes, notify)
                advance = counter(progress, len(chosen))
                return evaluate_folder(started, shown_task, folder, chosen, splits.id, target, video, advance, salt_of)
        except SnapshotRefused as error:
            raise UserError(f"{_shown(policy)} cannot be evaluated: {error}") from error


def is_source(policy: str | os.PathLike[str]) -> bool:
    """Whether ``policy`` is the source of a policy, not the path of its folder."""
    return isinstance(policy, str) and "\n" in policy


def _shown(policy: str | os.PathLike[str]) -> str:
    return "the policy" if is_source(policy) else os.fspath(policy)


def _check_policy(policy: object) -> None:
    """Raise UserError for an argument that can be neither a folder nor a source. This is not a failure of the
    policy."""
    expected = "Pass the folder that holds policy.py, or its source: a string with a line break."
    if not isinstance(policy, str | os.PathLike):
        raise UserError(f"policy is {policy!r}", expected)
    text = os.fspath(policy)
    if not text:
        raise UserError("policy is an empty string", expected)
    if not is_source(policy):
        _check_path(text, "policy", expected)
    elif "\0" in text or re.search("[\ud800-\udfff]", text):
        raise UserError(
            "the source of the policy holds a NUL or half of a surrogate pair", "Pass text that Python reads."
        )


def _check_path(path: str, name: str, expected: str) -> None:
    try:
        os.lstat(path)
    except (ValueError, UnicodeError):
        raise UserError(f"{name} is {path[:SHOWN]!r}, which is not a path", expected) from None
    except OSError as error:
        if error.errno == errno.ENAMETOOLONG:
            raise UserError(f"{name} is a path of {len(path)} characters: {path[:SHOWN]!r}...", expected) from None


def _path(given: str | os.PathLike[str] | None) -> Path | None:
    if given is None:
        return None
    _check_path(os.fspath(given), "a path", "Name a file or folder that can exist.")
    return Path(given)


def _task(task: str | os.PathLike[str] | Task) -> Task:
    from evopolicygym.tasks.registry import find_task

    return find_task(os.fspath(task)) if isinstance(task, str | os.PathLike) else task


def _settings(task: Task, seeds: str, seal_key: Path | None, text: str | None, variant: str) -> RunSettings:
    from evopolicygym.runs.settings import RunSettings, Seeds
    from evopolicygym.tasks.conditions import TextLevel, Variant

    return RunSettings.make(
        task=task.id,
        seeds=member(Seeds, seeds, "seeds"),
        seal_key=seal_key,
        text=None if text is None else member(TextLevel, text, "text"),
        variant=member(Variant, variant, "variant"),
    )


def checked_jobs(jobs: int | None) -> int:
    """Return the number of episodes at a time: by default the cores of this machine."""
    if jobs is not None and jobs < 1:
        raise UserError(f"jobs is {jobs}", "At least one episode must be played at a time.")
    return len(os.sched_getaffinity(0)) if jobs is None else jobs


def member(kind: Any, value: str, name: str) -> Any:
    """Return the member of an enumeration. Raises UserError with the values that there are."""
    try:
        return kind(value)
    except ValueError:
        values = ", ".join(repr(member.value) for member in kind)
        raise UserError(f"{name} is {value!r}", f"Choose one of {values}.") from None


def _indices(cases: str | Sequence[int] | None, split: Split) -> list[int]:
    from evopolicygym.tasks.splits import DEFAULT_CASES, SIZES, parse_indices

    given = DEFAULT_CASES[split] if cases is None else cases
    indices = parse_indices(given, SIZES[split]) if isinstance(given, str) else list(given)
    for index in indices:
        if isinstance(index, bool) or not isinstance(index, Integral):
            raise UserError(f"cases holds {index!r}", 'Pass indices, such as cases=[0, 1] or cases="0-7,12".')
    indices = [int(index) for index in indices]
    if not indices:
        raise UserError("no cases are named", "Name at least one, such as cases=[0].")
    return indices


def _salt_of(given: str | None, seal_key: Path | None, notify: Callable[[str], object]) -> Callable[[Checkpoint], str]:
    """Return how the salt follows from the checkpoint: as given, else by the sealing key, else drawn for this time."""
    from evopolicygym.tasks.sealing import load_key
    from evopolicygym.tasks.splits import evaluation_salt, new_salt, parse_salt

    if given is not None:
        chosen = parse_salt(given)
        return lambda _: chosen
    try:
        key = load_key(seal_key)
    except UserError as error:
        drawn = new_salt()
        notify(
            f"{error.message}: a policy that draws random numbers gets others each time it is evaluated. "
            f"To repeat this evaluation, add --salt {drawn} (salt=)"
        )
        return lambda _: drawn
    return lambda checkpoint: evaluation_salt(key, checkpoint.hash)


def _engine(
    task: Task, jobs: int, isolation: str, engine: str, ray_address: str | None
) -> Callable[..., AbstractContextManager[Engine]]:
    from evopolicygym.execution.engine import LocalEngine
    from evopolicygym.execution.ray.engine import ray_engine
    from evopolicygym.runs.settings import EngineName, IsolationChoice

    name = member(EngineName, engine, "engine")
    name.check_address(ray_address)
    levels = member(IsolationChoice, isolation, "isolation").levels()
    if name is EngineName.LOCAL:
        return partial(LocalEngine, task, jobs, levels)
    return partial(ray_engine, task, jobs, ray_address, levels)


def report_refused_nodes(nodes: Iterable[Node], notify: Callable[[str], object]) -> None:
    """Name the nodes of a cluster that get no work."""
    for node in nodes:
        if node.refused:
            notify(f"node {node.id} ({node.host}) gets no work: {node.refused}")


def _hidden_cases(task: Task, splits_id: str, policy: str | os.PathLike[str]) -> AbstractContextManager[None]:
    """Wait for agents that play the same hidden cases on this machine: they could notice the load."""
    from evopolicygym.runs.locks import CaseSet, hidden_cases_lock

    label = f"evaluate {_shown(policy)}"
    return hidden_cases_lock(
        CaseSet(task.id, splits_id), label, "Ctrl-C ends this; evaluate it later, or on train cases."
    )


def counter(progress: Callable[[int, int], object] | None, total: int) -> Callable[[], object]:
    """Return the function to call after each episode, and report that none is finished yet."""
    if progress is None:
        return lambda: None
    report, done = progress, count(1)
    report(0, total)
    return lambda: report(next(done), total)


@contextmanager
def policy_folder(policy: str | os.PathLike[str]) -> Iterator[Path]:
    """Yield the policy's folder; source is written to a temporary one."""
    if not is_source(policy):
        folder = Path(policy)
        if not folder.is_dir():
            raise UserError(f"{folder} is not a folder", "Name the folder that holds policy.py.")
        yield folder.resolve()
        return
    with tempfile.TemporaryDirectory(prefix="evopolicygym-policy-") as temporary:
        Path(temporary, "policy.py").write_text(str(policy))
        yield Path(temporary).resolve()


def _recording(policy: Path, record: Path | None, video: bool) -> Path | None:
    """Check and make the folder for recordings."""
    from evopolicygym.files import open_unnamed

    if record is None:
        if video:
            raise UserError("a video needs a place to put it", "Name a folder for recordings with --record (record=).")
        return None
    if policy in record.resolve().parents:
        raise UserError(
            f"{record} lies in the policy's folder, and would be evaluated as a part of it",
            f"Name a folder for recordings that is not in {policy}.",
        )
    try:
        record.mkdir(parents=True, exist_ok=True)
        if any(record.iterdir()):
            raise UserError(f"{record} is not empty", "Name a new folder for recordings: nothing is ever overwritten.")
        open_unnamed(record).close()
    except OSError as error:
        raise UserError(f"cannot write to {record}: {error.strerror}", "Name another folder.") from error
    return record
