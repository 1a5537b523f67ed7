"""Let an agent play one run, from its first prompt to its outcome."""

from __future__ import annotations

import os
import threading
import warnings
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

from evopolicygym.api.evaluate import EngineChoice, IsolationName, SeedsName, member, report_refused_nodes
from evopolicygym.api.results import Run, load_run
from evopolicygym.api.workspace import Workspace
from evopolicygym.errors import UserError

if TYPE_CHECKING:
    from evopolicygym.api.python_agent import PythonAgentSetup
    from evopolicygym.run_progress import RunProgress
    from evopolicygym.runs.agent.setup import AgentSetup
    from evopolicygym.runs.open_run import OpenRun
    from evopolicygym.runs.settings import AgentSettings

PathLike = str | os.PathLike[str]
REFRESH_S: Final = 0.25
STOPPED: Final = frozenset(
    {"interrupted", "limit", "timeout", "turn_limit"}
)  # turns that ended by no fault of the agent


def run(
    task: PathLike,
    agent: str | Sequence[str] | Callable[[Workspace], object],
    *,
    budget: int | None = None,
    seed: int = 0,
    name: str | None = None,
    folder: PathLike | None = None,
    model: str | None = None,
    model_url: str | None = None,
    model_ca: PathLike | None = None,
    model_headers: Mapping[str, str] | None = None,
    model_patience: float = 10.0,
    gateway: bool = True,
    options: Mapping[str, str] | None = None,
    seeds: SeedsName = "sealed",
    seal_key: PathLike | None = None,
    validation_cases: int | None = None,
    heldout_cases: int | None = None,
    max_candidates: int | None = None,
    text: Literal["brief", "full", "blind"] | None = None,
    variant: Literal["plain", "disguised", "shifted"] = "plain",
    own_models: Literal["allowed", "forbidden"] = "allowed",
    feedback: Literal["score", "summary", "trajectory", "video"] = "trajectory",
    video: Literal["none", "first", "all"] = "none",
    stock: bool = False,
    isolation: IsolationName = "auto",
    agent_isolation: IsolationName = "auto",
    agent_network: Literal["allowed", "none", "open"] = "allowed",
    agent_env: Sequence[str] = (),
    agent_hosts: Sequence[str] = (),
    show: Sequence[PathLike] = (),
    json_lines: bool = False,
    max_turns: int | None = None,
    max_hours: float | None = 24.0,
    max_tokens: int | None = None,
    max_cost: float | None = None,
    max_requests: int | None = None,
    max_retries: int = 8,
    max_silence: float | None = 60.0,
    prices: PathLike | None = None,
    replay_model: PathLike | None = None,
    replay_speed: float | None = None,
    jobs: int | None = None,
    engine: EngineChoice = "local",
    ray_address: str | None = None,
    progress: Callable[[RunProgress], object] | None = None,
    notice: Callable[[str], object] | None = None,
) -> Run:
    """Let an agent play one run, score it, and return it: what the command `evopolicygym run` does.

    Args:
        task: What ``load_task`` takes.
        agent: A name of `evopolicygym agent list` or a client file; a command, as a list of words; or a Python function
            that gets a ``Workspace``. A function runs in a process of its own, which is not isolated: its run is
            recorded as not publishable. Its output is in the run's logs/agent. When it returns, the agent has stopped.
            When it raises, it is called again, as every agent that fails; after three failures in a row the run is
            closed, or suspended if nothing was submitted.
        budget: Training episodes in all (default 128).
        seed: The agent's seed. Cases do not depend on it.
        name: The entrant's name in tables, figures and pages (default: that of the agent, with its model).
        folder: The run's folder (default: a new one in ``runs/``). A run that was interrupted there continues; the
            other arguments must be those it was opened with (``resume`` needs the folder alone).
        model, model_url, options: The model, another address of its API, and options of the client.
        seeds, seal_key: ``sealed`` cases from your sealing key, or the public ones of the ``paper``.
        validation_cases, heldout_cases: How many hidden cases select (default 16) and measure (default 32).
        max_candidates: Select among this many distinct checkpoints, the last ones (default: all).
        text: Text of the task for the agent: ``brief`` (default), ``full`` or ``blind`` (the spaces alone).
        variant: ``plain`` (default), ``disguised`` (implies ``blind``) or ``shifted``.
        own_models: ``allowed`` (default) or ``forbidden``: models of the task that the agent writes itself.
        feedback: ``score``, ``summary``, ``trajectory`` (default) or ``video``; each level includes those before it.
        video: Train episodes to record as video: ``none`` (default), ``first`` or ``all``.
        stock: Play the stock environment, not its fast version.
        isolation, agent_isolation: Isolation of policies and of the agent: ``auto`` is the better of levels A and B.
        agent_network, agent_env, agent_hosts, show: Access of the agent: its network, variables by name, more hosts,
            files and folders.
        json_lines: Exchange JSON lines with a command (docs/agents.md).
        model_ca, model_headers: Certificates that the gateway trusts at that address, and headers that it adds: the
            names of variables that hold the values, by header.
        model_patience: Minutes that the gateway waits out rate limits and outages of the provider in one call.
        gateway: Carry calls to the model, and keep the key from the agent (docs/agents.md).
        max_turns, max_hours, max_tokens, max_cost, max_requests, max_retries, max_silence: Limits of the agent; the
            last in minutes.
        prices: A price file of your own.
        replay_model, replay_speed: A run whose recorded calls answer in place of the model, and how many times faster
            than they were (default 1).
        jobs, engine, ray_address: Episodes at a time, and where: ``local`` or ``ray``.
        progress: Called with a ``RunProgress`` whenever it changes, from a thread of its own.
        notice: Called with each warning (default: ``warnings.warn``), also when the agent failed: with its last error
            and the path of its log.

    Returns:
        The finished ``Run``, whatever the agent did: ``score`` is None where ``missing`` says why.

    Raises:
        UserError: An argument is wrong, the agent cannot play here, or no isolation that was asked for holds here.
        Fault: The judge itself failed, and could not continue.
        RunSuspended: The agent could not play, by no fault of its own (no network, a refused key, a function that never
            ran to its end), with budget left. Nothing is lost: fix the cause, and repeat the call with the same folder.
        KeyboardInterrupt, or any other end of the program: nothing is lost. The same call with the same folder
            continues the run.

    >>> import evopolicygym, tempfile
    >>> def agent(workspace):
    ...     feedback = workspace.submit([0, 1])
    ...     print(feedback.mean, feedback.remaining)
    >>> result = evopolicygym.run(
    ...     "core16/mountain-car-continuous", agent, budget=2, validation_cases=1, heldout_cases=1, seeds="paper",
    ...     folder=tempfile.mkdtemp(),
    ... )
    >>> result.outcome, len(result.returns), result.publishable
    ('scored', 1, False)
    """
    options_given = dict(locals())  # by the names of their parameters
    from evopolicygym.runs.options import given_settings
    from evopolicygym.runs.settings import EngineName

    member(EngineName, engine, "engine")
    settings = _agent_settings(agent, options_given)
    given = given_settings(task, options_given, settings)
    root = Path(folder) if folder is not None else new_folder(given, settings)
    with ExitStack() as stack:
        return play_and_load(root, _setup(agent, settings, stack), given, progress, notice)


def play_and_load(
    root: Path,
    setup: AgentSetup | PythonAgentSetup,
    given: Mapping[str, Any],
    progress: Callable[[RunProgress], object] | None,
    notice: Callable[[str], object] | None,
) -> Run:
    """Play a run to its outcome and return it, with warnings for the caller of ``run`` or ``resume``."""
    play_to_outcome(root, setup, given, lambda run: _reporting(run, setup, progress, notice or warnings.warn))
    played = load_run(root)
    if failure := _agent_failure(played):
        notice(failure) if notice else warnings.warn(failure, stacklevel=3)
    return played


def play_to_outcome(
    root: Path,
    setup: AgentSetup | PythonAgentSetup,
    given: Mapping[str, Any],
    during: Callable[[OpenRun], AbstractContextManager[object]],
) -> None:
    """Open the run in ``root``, new or existing, and play it to its outcome. ``during`` is entered while it is
    played."""
    from evopolicygym.runs.agent.loop import play_agent
    from evopolicygym.runs.open_run import open_run

    async def driven(run: OpenRun) -> None:
        with during(run):
            await play_agent(run, setup)

    with open_run(root, setup.facts(root), **given) as run:
        run_coroutine(driven(run))


def new_folder(given: Mapping[str, Any], settings: AgentSettings) -> Path:
    """Return the default folder of a new run with the given settings."""
    from evopolicygym.runs.folder_names import BLIND, folder_name
    from evopolicygym.runs.settings import RunSettings
    from evopolicygym.tasks.registry import find_task

    agent = Path(settings.name).stem if settings.name.endswith(".toml") else settings.name.rpartition(":")[2]
    name = given.get("name")
    parts = (
        BLIND if RunSettings.make(**given).is_blind else find_task(given["task"]).id,
        *([name] if name else [agent, settings.model or "none"]),
        f"s{settings.seed}",
        f"{datetime.now(UTC):%Y%m%dT%H%M%SZ}",
    )
    return Path("runs", folder_name(*parts))


def _agent_settings(
    agent: str | Sequence[str] | Callable[[Workspace], object], options: Mapping[str, Any]
) -> AgentSettings:
    from evopolicygym.agents.definitions import COMMAND
    from evopolicygym.runs.options import agent_settings, string_list

    if callable(agent):
        return _function_settings(agent, options)
    if not isinstance(agent, Sequence):
        raise UserError(f"agent must be a name, a list of words or a function (got: {agent!r})")
    if agent == COMMAND:
        raise UserError("the command is missing", 'Pass it as a list: agent=["./my-agent.sh", "--fast"].')
    if isinstance(agent, str):
        return agent_settings(agent, [], options)
    return agent_settings(COMMAND, string_list(agent, "agent"), options)


def _function_settings(agent: Callable[[Workspace], object], options: Mapping[str, Any]) -> AgentSettings:
    from evopolicygym.api.agent_source import agent_name
    from evopolicygym.runs.options import agent_settings

    if options["agent_isolation"] in ("A", "B") or options["agent_network"] == "none":
        raise UserError(
            "a Python function cannot be isolated: it shares the process tree and the files of its caller",
            'Make it a program, and pass it as a command: agent=["python3", "my_agent.py"].',
        )
    if any(options[name] for name in ("model", "model_url", "options", "json_lines")):
        raise UserError(
            "a Python function takes no model, model_url, options or json_lines",
            "Use what you need in the function.",
        )
    return agent_settings(agent_name(agent), [], {**options, "agent_isolation": "none", "agent_network": "open"})


def _setup(
    agent: str | Sequence[str] | Callable[[Workspace], object], settings: AgentSettings, stack: ExitStack
) -> AgentSetup | PythonAgentSetup:
    if not callable(agent):
        from evopolicygym.runs.agent.setup import set_up_agent

        return set_up_agent(settings)
    from evopolicygym.api.python_agent import FunctionHost, PythonAgentSetup

    return PythonAgentSetup(agent, settings, stack.enter_context(FunctionHost(agent)))


def _agent_failure(run: Run) -> str | None:
    """Return in words how often the agent failed, with its last error and the log of that turn; None if it did not.
    Turns that a limit or the user ended are not counted."""
    from evopolicygym.api.python_agent import last_lines
    from evopolicygym.run_paths import RunPaths, turn_file

    turns = run.record.turns
    failed = [number for number, turn in enumerate(turns, 1) if turn.failure and turn.failure not in STOPPED]
    if not failed:
        return None
    log = RunPaths(run.folder).transcripts / turn_file(failed[-1], ".err")
    message = turns[failed[-1] - 1].message or "unknown"
    with suppress(OSError):
        message = last_lines(log, 1) or message  # the record holds only the beginning of a long message
    unscored = " Nothing could be scored." if run.outcome in ("no_ok_submit", "agent_never_worked") else ""
    return (
        f"the agent {run.agent} failed in {len(failed)} of {len(turns)} turns.{unscored} Last error: {message} "
        f"(log: {log})"
    )


def run_coroutine(playing: Coroutine[Any, Any, None]) -> None:
    """Run a coroutine to its end: in a new event loop, or, where a loop is running already (as in a notebook), in a
    thread."""
    import asyncio

    try:
        asyncio.get_running_loop()
    except RuntimeError:
        asyncio.run(playing)
        return
    raised: list[BaseException] = []
    runner = asyncio.Runner(loop_factory=asyncio.new_event_loop)
    loop = runner.get_loop()
    task = loop.create_task(playing)

    async def played() -> None:
        await task

    def work() -> None:
        try:
            with runner:
                runner.run(played())
        except BaseException as error:
            raised.append(error)

    thread = threading.Thread(target=work, name="evopolicygym run")
    thread.start()
    try:
        thread.join()
    except KeyboardInterrupt:
        loop.call_soon_threadsafe(task.cancel)
        thread.join()
        raise
    if raised:
        raise raised[0]


def notify_at_start(run: OpenRun, setup: AgentSetup | PythonAgentSetup, notice: Callable[[str], object]) -> None:
    """Call ``notice`` with each warning that is known before the agent starts."""
    if run.notice:
        notice(run.notice)
    for text in setup.notices(run.paths):
        notice(text)
    report_refused_nodes(run.judge.context.engine.nodes, notice)


@contextmanager
def _reporting(
    run: OpenRun,
    setup: AgentSetup | PythonAgentSetup,
    progress: Callable[[RunProgress], object] | None,
    notice: Callable[[str], object],
) -> Iterator[None]:
    notify_at_start(run, setup, notice)
    if progress is None:
        yield
        return
    from evopolicygym.runs.progress import RunWatch

    done = threading.Event()
    watch = RunWatch(run.judge)
    reporter = threading.Thread(target=_report, args=(watch.progress, progress, done), daemon=True)
    reporter.start()
    try:
        yield
    finally:
        done.set()
        reporter.join()


def _report(look: Callable[[], RunProgress], progress: Callable[[RunProgress], object], done: threading.Event) -> None:
    """Call ``progress`` whenever something but the times has changed; once more at the end."""
    reported = None
    is_last = False
    while not is_last:
        is_last = done.wait(REFRESH_S)
        current = look()
        if current != reported:
            reported = current
            try:
                progress(current)
            except Exception as error:  # a broken callback must not end the run
                warnings.warn(f"progress is not reported any more: {error!r}", stacklevel=1)
                return
