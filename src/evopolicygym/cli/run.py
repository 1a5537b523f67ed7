"""`evopolicygym run`: an agent plays one whole run, and is scored."""

from __future__ import annotations

import asyncio
import os
import shlex
import signal
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from evopolicygym.agents.definitions import COMMAND
from evopolicygym.cli.output import print_notice, print_refused_nodes, stderr
from evopolicygym.cli.run_text import check_outcome, is_without_score, show_outcome, watch_run
from evopolicygym.errors import UserError
from evopolicygym.execution.slots import check_jobs
from evopolicygym.judge.judge import Videos
from evopolicygym.run_paths import RunPaths
from evopolicygym.runs.agent_loop import play_agent
from evopolicygym.runs.agent_setup import AgentSetup, set_up_agent
from evopolicygym.runs.install_paths import resolve_command
from evopolicygym.runs.open_run import OpenRun, open_run, resume_settings
from evopolicygym.runs.run_status import has_outcome, read_state, recorded_settings
from evopolicygym.runs.settings import CORES, MAY_DIFFER, AgentSettings, EngineName, IsolationChoice, RunSettings, Seeds
from evopolicygym.runs.trust import granted_command, granted_options, is_signed_here
from evopolicygym.sandbox.agent.agent_sandbox import NetworkAccess
from evopolicygym.tasks.registry import absolute_name, resolve

LIMITS: Final = {
    "turns": "--max-turns",
    "hours": "--max-hours",
    "tokens": "--max-tokens",
    "dollars": "--max-cost",
    "retries": "--max-retries",
    "silent_minutes": "--max-silence",
}
ALONE: Final = "put what it needs into a folder of its own, or name it with --show"


def run(
    context: typer.Context,
    task: Annotated[str | None, typer.Argument(help="core16/NAME, a Gymnasium id, module:Env-v0, a task file.")] = None,
    command: Annotated[list[str] | None, typer.Argument(help="With --agent command, after two dashes.")] = None,
    agent: Annotated[str, typer.Option(help="A name of `agent list`, command, or a client file.")] = "tuner",
    model: Annotated[str | None, typer.Option(help="The model, as the client names it.")] = None,
    model_url: Annotated[str | None, typer.Option(help="Another address of the model's API.")] = None,
    option: Annotated[list[str] | None, typer.Option(help="NAME=VALUE of the client's own options.")] = None,
    json_lines: Annotated[bool, typer.Option("--json-lines", help="Speak to the command in JSON lines.")] = False,
    seed: Annotated[int, typer.Option(help="The agent's seed; cases do not depend on it.")] = 0,
    folder: Annotated[Path | None, typer.Option("--run", help="Folder of the run (default: new, in runs/).")] = None,
    resume: Annotated[Path | None, typer.Option(help="Go on with this run.")] = None,
    agent_isolation: Annotated[
        IsolationChoice, typer.Option(help="auto is the best of A and B.")
    ] = IsolationChoice.AUTO,
    agent_network: Annotated[NetworkAccess, typer.Option(help="What the agent can reach.")] = NetworkAccess.ALLOWED,
    agent_env: Annotated[list[str] | None, typer.Option(help="A variable that is passed on, by NAME.")] = None,
    agent_host: Annotated[list[str] | None, typer.Option(help="One more HOST[:PORT] that it can reach.")] = None,
    show: Annotated[list[Path] | None, typer.Option(help="A file or folder that it can read.")] = None,
    max_turns: Annotated[int | None, typer.Option(help="Turns of the agent.")] = None,
    max_hours: Annotated[float, typer.Option(help="Hours that the agent may work.")] = 24.0,
    max_tokens: Annotated[int | None, typer.Option(help="Tokens, cached ones included.")] = None,
    max_cost: Annotated[float | None, typer.Option(help="Dollars.")] = None,
    max_retries: Annotated[int, typer.Option(help="Of a turn, in a row, while the provider is in trouble.")] = 8,
    max_silence: Annotated[float, typer.Option(help="Minutes in which a client may say nothing.")] = 60.0,
    prices: Annotated[Path | None, typer.Option(help="Price file (see `evopolicygym docs agents`)")] = None,
    seeds: Annotated[Seeds, typer.Option(help="Cases of the paper, or sealed by your key.")] = Seeds.SEALED,
    seal_key: Annotated[Path | None, typer.Option(help="Key file for --seeds sealed.")] = None,
    budget: Annotated[int | None, typer.Option(help="Train episodes in all (default 128).")] = None,
    validation_cases: Annotated[int | None, typer.Option(help="Hidden cases that select (default 16).")] = None,
    heldout_cases: Annotated[int | None, typer.Option(help="Hidden cases that measure (default 32).")] = None,
    video: Annotated[Videos | None, typer.Option(help="Which train episodes are filmed (default none).")] = None,
    stock: Annotated[bool, typer.Option("--stock", help="Stock environments, not the fast ones.")] = False,
    max_candidates: Annotated[
        int | None, typer.Option(min=1, help="Choose among the last N distinct checkpoints (default: all).")
    ] = None,
    isolation: Annotated[
        IsolationChoice, typer.Option(help="Of policies: auto is the best of A and B.")
    ] = IsolationChoice.AUTO,
    jobs: Annotated[int, typer.Option(min=1, help="Episodes at a time, on this machine.")] = CORES,
    engine: Annotated[EngineName | None, typer.Option(help="This machine (default), or Ray.")] = None,
    ray_address: Annotated[str | None, typer.Option(help="A Ray cluster, or auto (default: a Ray of our own).")] = None,
    json: Annotated[bool, typer.Option("--json", help="Print the record as JSON.")] = False,
) -> None:
    """Let an agent play one run: prompted until its budget is spent, a limit is hit or it stops; then scored."""
    if resume:
        settings = recorded_settings(resume)
        given = _given_to_resume(context, settings)
        (engine or settings.engine).check_address(ray_address)
        if has_outcome(resume):
            _check_finished(resume, settings, given)
            _show(resume, json)
            return
        _check_granted(context, settings, is_own=is_signed_here(read_state(resume).opened))
        play(resume, settings.agent, given, json)
        return
    if task is None:
        raise UserError("no task is named", "For example: evopolicygym run core16/acrobot --agent tuner")
    who = AgentSettings.make(
        LIMITS,
        name=str(Path(agent).resolve()) if agent.endswith(".toml") else agent,
        model=model,
        base_url=model_url,
        seed=seed,
        options=dict(_option(text) for text in option or []),
        command=resolve_command(command or []) if agent == COMMAND else command or [],
        variables=agent_env or [],
        hosts=agent_host or [],
        shown=[path.resolve() for path in show or []],
        json_lines=json_lines,
        isolation=agent_isolation.value,
        network=agent_network,
        turns=max_turns,
        hours=max_hours,
        tokens=max_tokens,
        dollars=max_cost,
        retries=max_retries,
        silent_minutes=max_silence,
        prices=prices and prices.resolve(),
    )
    (engine or EngineName.LOCAL).check_address(ray_address)
    given = {
        "task": absolute_name(task),
        "seeds": seeds,
        "seal_key": seal_key and seal_key.resolve(),
        "budget": budget,
        "validation_cases": validation_cases,
        "heldout_cases": heldout_cases,
        "video": video,
        "stock": stock,
        "max_candidates": max_candidates,
        "isolation": isolation,
        "jobs": jobs,
        "engine": engine,
        "ray_address": ray_address,
        "agent": who,
    }
    play(folder or new_folder(task, who), who, given, json)


def play(root: Path, settings: AgentSettings | None, given: dict[str, Any], json: bool) -> None:
    if settings is None:
        raise UserError(f"{root} is played by hand", f"Go on with `evopolicygym serve TASK --run {root}`.")
    who = set_up_agent(settings)
    with open_run(root, who.facts(root), **given) as owner:
        asyncio.run(_drive(owner, who, root))
    _show(root, json)


def _show(root: Path, json: bool) -> None:
    show_outcome(root, json)
    check_outcome(root)
    if is_without_score(root):
        raise typer.Exit(1)


async def _drive(owner: OpenRun, who: AgentSetup, root: Path) -> None:
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, _stop, number, root)
    stderr.print(f"{root}: {who.client.name} plays {owner.judge.context.task.id}")
    print_notice(owner.notice)
    for path in who.files_shown_alone(owner.paths):
        stderr.print(f"the agent sees {path}, and nothing beside it: {ALONE}")
    print_refused_nodes(owner.judge.context.engine.nodes)
    with watch_run(lambda: owner.judge.state):
        await play_agent(owner, who)


def _stop(number: int, root: Path) -> None:
    """At once: the ledger holds all there is to know; workers and agent die with us."""
    stderr.print(f"stopped; `evopolicygym run --resume {root}` goes on, `evopolicygym finish {root}` ends it")
    os._exit(128 + number)


def _given_to_resume(context: typer.Context, settings: RunSettings) -> dict[str, Any]:
    """What was written beside --resume. A run goes on as it was opened: what cannot change is refused, not ignored."""
    written = _written(context)
    task, command = _task_and_command(context, settings)
    grants = granted_options(settings)
    known = {"task", "resume", "json", *MAY_DIFFER, *grants} | (set() if command else {"command"})
    if refused := [flag for name, flag in written.items() if name not in known]:
        raise UserError(
            f"a run goes on as it was opened: {', '.join(refused)} cannot be given with --resume",
            "Leave it out, or begin a new run.",
        )
    given = {name: context.params[name] for name in written if name in MAY_DIFFER}
    return given | ({"task": absolute_name(task)} if task else {})


def _written(context: typer.Context) -> dict[str, str]:
    """What the command line holds: the names of parameters, and how they are written."""
    return {
        parameter.name: parameter.opts[0]
        for parameter in context.command.params
        if parameter.name and context.get_parameter_source(parameter.name).name == "COMMANDLINE"  # type: ignore[union-attr]
    }


def _task_and_command(context: typer.Context, settings: RunSettings) -> tuple[str | None, list[str]]:
    """With --resume the task may be left out: then all words after the dashes are the agent's command. What is left of
    a command that is not the recorded one is returned."""
    task, command = context.params["task"], list(context.params["command"] or [])
    recorded = settings.agent.command if settings.agent else []
    if task and recorded and _is_command([task, *command], recorded):
        return None, []
    return task, [] if command and _is_command(command, recorded) else command


def _is_command(words: list[str], recorded: list[str]) -> bool:
    try:
        return words == recorded or resolve_command(words) == recorded
    except UserError:
        return False


def _check_granted(context: typer.Context, settings: RunSettings, is_own: bool) -> None:
    """What the agent was granted beyond the usual must be written again, unless this installation opened the run: the
    folder may come from somebody else."""
    grants, written = granted_options(settings), _written(context)
    given = {name: context.params[name] if name in written else None for name in grants}
    if extra := [flags for name, grant in grants.items() if (flags := grant.extra(given[name]).flags)]:
        raise UserError(
            f"a run goes on as it was opened: {' '.join(extra)} cannot be added", "Leave it out, or begin a new run."
        )
    if is_own:
        return
    missing = [flags for name, grant in grants.items() if (flags := grant.missing(given[name]).flags)]
    command = granted_command(settings.agent)
    words = [word for word in (context.params["task"], *(context.params["command"] or [])) if word]
    if command and not any(_is_command(part, command) for part in (words, words[1:])):
        missing.append(f"-- {shlex.join(command)}")
    if missing:
        raise UserError(
            "this run grants its agent more than a run does by default, and a run folder may come from somebody else",
            f"Nothing was started. Look at its config.toml; if you mean it, add: {' '.join(missing)}",
        )


def _check_finished(root: Path, settings: RunSettings, given: dict[str, Any]) -> None:
    """Nothing is played in a run that has its outcome; what was written must still fit it."""
    resume_settings(settings, given, RunPaths(root))
    if jobs := given.get("jobs"):
        check_jobs(jobs)


def _option(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals:
        raise UserError(f"--option {text} has no value", "Write --option NAME=VALUE.")
    return name, value


def new_folder(task: str, who: AgentSettings) -> Path:
    name = Path(who.name).stem if who.name.endswith(".toml") else who.name
    parts = (resolve(task).id, name, who.model or "none", f"s{who.seed}", f"{datetime.now(UTC):%Y%m%dT%H%M%SZ}")
    return Path("runs") / "__".join(part.replace("/", "-") for part in parts)
