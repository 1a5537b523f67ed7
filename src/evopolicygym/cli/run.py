"""`evopolicygym run`: let an agent play one run, and score it."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from evopolicygym.api.resume import agent_to_resume
from evopolicygym.api.run import new_folder, notify_at_start, play_to_outcome
from evopolicygym.cli.missing_anchors import MissingAnchors, add_missing_anchors
from evopolicygym.cli.options import TASK_HELP, pair, written_options
from evopolicygym.cli.output import print_hint
from evopolicygym.cli.play_options import (
    LEVELS,
    Budget,
    EntrantName,
    Feedback,
    HeldoutCases,
    LocalJobs,
    MaxCandidates,
    OwnModelsRule,
    PolicyIsolation,
    RayAddress,
    SealKey,
    SeedsChoice,
    Text,
    ValidationCases,
    VariantChoice,
    VideoChoice,
)
from evopolicygym.cli.progress import end_live_text, run_progress_status, show_progress
from evopolicygym.cli.text.run import check_outcome, is_without_score, show_outcome
from evopolicygym.errors import RunSuspended, UserError
from evopolicygym.judge.state import RunPhase
from evopolicygym.runs.agent.setup import AgentSetup, set_up_agent
from evopolicygym.runs.open_run import OpenRun
from evopolicygym.runs.options import agent_settings, given_settings
from evopolicygym.runs.progress import RunWatch
from evopolicygym.runs.run_status import recorded_settings
from evopolicygym.runs.settings import CORES, MAY_DIFFER, AgentSettings, EngineName, IsolationChoice, RunSettings, Seeds
from evopolicygym.runs.trust import check_grants, granted_options, is_same_command
from evopolicygym.sandbox.agent.agent_sandbox import NetworkAccess
from evopolicygym.tasks.registry import absolute_name


def run(
    context: typer.Context,
    task: Annotated[str | None, typer.Argument(help=TASK_HELP)] = None,
    command: Annotated[
        list[str] | None, typer.Argument(help="Agent program and its arguments, after -- (with --agent command).")
    ] = None,
    agent: Annotated[
        str, typer.Option(help="Agent: a name from `agent list`, command, or a client file (TOML).")
    ] = "tuner",
    model: Annotated[str | None, typer.Option(help="Model, as the agent's client names it.")] = None,
    model_url: Annotated[str | None, typer.Option(help="Base URL of the model's API, if not the default.")] = None,
    model_ca: Annotated[
        Path | None, typer.Option(help="File with certificates (PEM) to trust at the model's API, too.")
    ] = None,
    model_header: Annotated[
        list[str] | None, typer.Option(help="NAME=VARIABLE: a header of calls to the model. Repeatable.")
    ] = None,
    model_patience: Annotated[
        float, typer.Option(help="Maximum minutes to wait out rate limits and outages in one call to the model.")
    ] = 10.0,
    gateway: Annotated[
        bool, typer.Option("--gateway/--no-gateway", help="Carry calls to the model and keep the key from the agent.")
    ] = True,
    option: Annotated[
        list[str] | None, typer.Option(help="NAME=VALUE: an option of the agent's client. Repeatable.")
    ] = None,
    json_lines: Annotated[
        bool, typer.Option("--json-lines", help="Send prompts to the program as JSON lines (with --agent command).")
    ] = False,
    seed: Annotated[int, typer.Option(help="Seed of the agent. Cases do not depend on it.")] = 0,
    name: EntrantName = None,
    folder: Annotated[
        Path | None, typer.Option("--run", help="Folder of the run (default: a new one in runs/).")
    ] = None,
    resume: Annotated[Path | None, typer.Option(help="Continue the run in this folder.")] = None,
    agent_isolation: Annotated[
        IsolationChoice, typer.Option(help=f"Isolation of the agent: {LEVELS}.")
    ] = IsolationChoice.AUTO,
    agent_network: Annotated[
        NetworkAccess, typer.Option(help="Network of the agent: allowed hosts only, none, or open.")
    ] = NetworkAccess.ALLOWED,
    agent_env: Annotated[
        list[str] | None, typer.Option(help="NAME of an environment variable to pass to the agent. Repeatable.")
    ] = None,
    agent_host: Annotated[
        list[str] | None, typer.Option(help="HOST[:PORT] that the agent may connect to, too. Repeatable.")
    ] = None,
    show: Annotated[list[Path] | None, typer.Option(help="File or folder that the agent may read. Repeatable.")] = None,
    max_turns: Annotated[int | None, typer.Option(help="Maximum number of prompts to the agent.")] = None,
    max_hours: Annotated[float, typer.Option(help="Maximum working time of the agent in hours.")] = 24.0,
    max_tokens: Annotated[int | None, typer.Option(help="Maximum number of tokens, including cached ones.")] = None,
    max_cost: Annotated[float | None, typer.Option(help="Maximum cost of the agent in dollars.")] = None,
    max_requests: Annotated[int | None, typer.Option(help="Maximum number of calls to the model.")] = None,
    max_retries: Annotated[int, typer.Option(help="Maximum consecutive retries after provider errors.")] = 8,
    max_silence: Annotated[float, typer.Option(help="Maximum minutes without output from the client.")] = 60.0,
    prices: Annotated[
        Path | None, typer.Option(help="File with prices of models (see `evopolicygym docs agents`).")
    ] = None,
    replay_model: Annotated[
        Path | None,
        typer.Option(help="Run whose recorded calls answer in place of the model; no key is needed."),
    ] = None,
    replay_speed: Annotated[
        float | None, typer.Option(help="Speed of the replay, as a multiple of the recorded one (default 1).")
    ] = None,
    seeds: SeedsChoice = Seeds.SEALED,
    seal_key: SealKey = None,
    budget: Budget = None,
    validation_cases: ValidationCases = None,
    heldout_cases: HeldoutCases = None,
    video: VideoChoice = None,
    stock: Annotated[
        bool, typer.Option("--stock", help="Play stock environments instead of the bit-exact fast ones.")
    ] = False,
    max_candidates: MaxCandidates = None,
    text: Text = None,
    variant: VariantChoice = None,
    own_models: OwnModelsRule = None,
    feedback: Feedback = None,
    isolation: PolicyIsolation = IsolationChoice.AUTO,
    jobs: LocalJobs = CORES,
    engine: Annotated[EngineName | None, typer.Option(help="Where episodes are played (default local).")] = None,
    ray_address: RayAddress = None,
    anchors: MissingAnchors = True,
    json: Annotated[bool, typer.Option("--json", help="Print the record as JSON.")] = False,
) -> None:
    """Let an agent play one run, then score it. The agent is prompted until its budget is spent, a limit is reached or
    it stops."""
    options = dict(locals())  # by the names of their parameters
    if resume:
        _resume(context, resume, anchors, json)
        return
    if task is None:
        raise UserError("no task is given", "For example: evopolicygym run core16/acrobot --agent tuner")
    options |= {
        "options": dict(pair(text, "--option NAME=VALUE") for text in option or []),
        "agent_hosts": agent_host,
        "model_headers": dict(pair(text, "--model-header NAME=VARIABLE") for text in model_header or []),
    }
    settings = agent_settings(agent, command or [], options, flags=True)
    given = given_settings(task, options, settings)
    play_and_show(folder or new_folder(given, settings), settings, given, json, anchors)


def play_and_show(
    root: Path, settings: AgentSettings, given: dict[str, Any], json: bool, anchors: bool = False
) -> None:
    """Play a run to its outcome and print it; measure ``anchors`` of its task that are missing. Exit with 1 if there is
    no score and the agent is not to blame, with 5 if the run is suspended."""
    setup = set_up_agent(settings)
    try:
        play_to_outcome(root, setup, given, lambda run: _progress(run, setup, root))
    except RunSuspended:
        show_outcome(root, json)
        raise
    _show(root, given, json, anchors)


def _show(root: Path, given: dict[str, Any], json: bool, anchors: bool) -> None:
    show_outcome(root, json)
    if anchors:
        add_missing_anchors(root, given)
    check_outcome(root)
    if is_without_score(root):
        raise typer.Exit(1)


@contextmanager
def _progress(run: OpenRun, setup: AgentSetup, root: Path) -> Iterator[None]:
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, _stop, number, root)
    if run.judge.state.phase is RunPhase.FINISHED:
        _print_finished(root)
        yield
        return
    print_hint(f"{root}: {setup.client.name} plays {run.judge.context.task.id}")
    notify_at_start(run, setup, print_hint)
    watch = RunWatch(run.judge)
    with show_progress(lambda: run_progress_status(watch.progress())):
        yield


def _print_finished(root: Path) -> None:
    print_hint(f"{root} is finished: nothing was played. This is its outcome; a new run needs another folder.")


def _stop(number: int, root: Path) -> None:
    """Exit at once: the ledger holds the whole state, and workers and agent die with this process."""
    end_live_text()
    print_hint(f"stopped; continue with `evopolicygym run --resume {root}` or end it with `evopolicygym finish {root}`")
    os._exit(128 + number)


def _resume(context: typer.Context, root: Path, anchors: bool, json: bool) -> None:
    written = {name: context.params[name] for name in written_options(context)}
    words = [word for word in (context.params["task"], *(context.params["command"] or [])) if word]
    given = _given_to_resume(context, recorded_settings(root))
    agent = agent_to_resume(root, given, lambda settings, is_own: check_grants(settings, written, words, is_own=is_own))
    if agent:
        play_and_show(root, agent, given, json, anchors)
        return
    if "seal_key" in given:
        print_hint("--seal-key was not used")
    _print_finished(root)
    _show(root, given, json, anchors=False)


def _given_to_resume(context: typer.Context, settings: RunSettings) -> dict[str, Any]:
    """Return the options given with --resume. Options that cannot change are refused, not ignored."""
    written = written_options(context)
    task, command = _task_and_command(context, settings)
    grants = granted_options(settings)
    allowed = {"task", "resume", "anchors", "json", *MAY_DIFFER, *grants} | (set() if command else {"command"})
    if refused := [flag for name, flag in written.items() if name not in allowed]:
        raise UserError(
            f"a run continues with the settings it was opened with: {', '.join(refused)} cannot be given with --resume",
            "Leave it out, or start a new run.",
        )
    given = {name: context.params[name] for name in written if name in MAY_DIFFER}
    return given | ({"task": absolute_name(task)} if task else {})


def _task_and_command(context: typer.Context, settings: RunSettings) -> tuple[str | None, list[str]]:
    """Return the task, and the command if it is not the recorded one. With --resume the task may be left out: then all
    words after the dashes are the agent's command."""
    task, command = context.params["task"], list(context.params["command"] or [])
    recorded = settings.agent.command if settings.agent else []
    if task and recorded and is_same_command([task, *command], recorded):
        return None, []
    return task, [] if command and is_same_command(command, recorded) else command
