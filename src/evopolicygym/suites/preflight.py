"""Check whether the runs of a suite can be played here, before the first one starts.

Agents are checked as a run would set them up: client, version, key or login, model, isolation. Tasks are made and reset
in a process of their own, which a broken simulator may crash. Nothing is played. A model is asked for one word only
where the user wants a live call.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from enum import StrEnum
from itertools import islice
from pathlib import Path
from shutil import disk_usage
from statistics import fmean
from typing import Any, Final

from evopolicygym.agents import prices
from evopolicygym.agents.turn import Turn
from evopolicygym.errors import UserError
from evopolicygym.printable import one_line
from evopolicygym.runs.agent.gateway import model_access
from evopolicygym.runs.agent.setup import AgentSetup, set_up_agent
from evopolicygym.runs.settings import AgentSettings, EngineName, IsolationChoice
from evopolicygym.sandbox.policy.jail import Level
from evopolicygym.sandbox.probes import probe_level
from evopolicygym.suites.file import PlannedRun
from evopolicygym.suites.folder import SuiteFolder
from evopolicygym.suites.status import SuiteRow
from evopolicygym.tasks import simulator
from evopolicygym.tasks.novel.generate import is_novel
from evopolicygym.tasks.registry import find_task
from evopolicygym.tasks.simulator import HEADLESS

AskModel = Callable[[AgentSettings], Turn]
RUN_BYTES: Final = 32 << 20  # of a run without videos, if there is no finished one to measure
MEASURED_RUNS: Final = 20
MEASURED_FILES: Final = 20_000
TASKS_TIMEOUT_S: Final = 300.0  # for all tasks; a cold disk is slow
REPORT: Final = "checked "  # marks our lines among those that packages print
TRY_TASKS: Final = "from evopolicygym.suites.preflight import try_tasks; import sys; try_tasks(sys.argv[1:])"


class CheckKind(StrEnum):
    """Subject of a check."""

    AGENT = "agent"
    TASK = "task"
    ISOLATION = "isolation"
    DISK = "disk"


@dataclass(frozen=True)
class PreflightCheck:
    """One thing that was checked. ``detail``: what was found; ``remedy``: what to do if it is not ``ok``."""

    kind: CheckKind
    name: str
    ok: bool
    detail: str
    remedy: str = ""


@dataclass(frozen=True)
class PreflightReport:
    """The result of a preflight. ``unready``: the runs that cannot be played here, each with the reason.
    ``can_start``: whether those that are ready can be played at all."""

    checks: tuple[PreflightCheck, ...]
    unready: dict[str, str]

    @property
    def ready(self) -> bool:
        """Whether everything that was asked for can be played."""
        return all(check.ok for check in self.checks)

    @property
    def can_start(self) -> bool:
        """Whether anything can be played: policies can be isolated, and there is disk space."""
        return all(check.ok for check in self.checks if check.kind in (CheckKind.ISOLATION, CheckKind.DISK))

    def as_dict(self) -> dict[str, Any]:
        """Return everything as plain values, as `suite run --dry-run --json` prints it."""
        checks = [asdict(check) for check in self.checks]
        return {"ready": self.ready, "checks": checks, "unready": dict(self.unready)}


def check_suite(
    folder: SuiteFolder,
    planned: Sequence[PlannedRun],
    rows: Sequence[SuiteRow],
    engine: EngineName = EngineName.LOCAL,
    ask_model: AskModel | None = None,
) -> PreflightReport:
    """Check what the runs without a score need. On Ray, tasks and isolation of policies are checked by each node.
    ``ask_model`` plays one tiny turn of each agent that has a model."""
    unfinished = [run for run, row in zip(planned, rows, strict=True) if not row.is_over]
    needing = {row.run for row in rows if row.needs_agent}  # of the others, hidden scoring alone is left
    played = [run for run in reversed(unfinished) if run.name in needing]
    agents = {run.agent: run.settings.agent for run in played if run.settings.agent}
    checks = [_check_agent(name, settings, ask_model) for name, settings in sorted(agents.items())]
    if engine is EngineName.LOCAL and unfinished:
        checks += _check_tasks(unfinished)
        checks.append(_check_isolation(unfinished[0].settings.isolation))
    if unfinished:
        checks.append(_check_disk(folder, len(unfinished), rows))
    failed = {(check.kind, check.name): check for check in checks if not check.ok}
    unready = {
        run.name: f"{check.name}: {check.detail}"
        for run in unfinished
        for check in (failed.get((CheckKind.AGENT, run.agent)) or failed.get((CheckKind.TASK, run.task.id)),)
        if check
    }
    return PreflightReport(tuple(checks), unready)


def _check_agent(name: str, settings: AgentSettings, ask_model: AskModel | None) -> PreflightCheck:
    try:
        setup = set_up_agent(settings)
        facts = [setup.client.title, *([setup.version] if setup.version else []), *_access(setup), _price(setup)]
        if ask_model and model_access(setup.client, settings):
            facts.append(_answer(ask_model(settings.model_copy(update={"retries": 0, "patience_minutes": 0}))))
    except (UserError, OSError) as error:
        message, remedy = (error.message, error.remedy) if isinstance(error, UserError) else (str(error), "")
        return PreflightCheck(CheckKind.AGENT, name, False, _in_one_line(message), _in_one_line(remedy))
    return PreflightCheck(CheckKind.AGENT, name, True, ", ".join(fact for fact in facts if fact))


def _access(setup: AgentSetup) -> list[str]:
    access = model_access(setup.client, setup.settings)
    return [f"model {setup.settings.model or 'by default'} ({access})"] if access else []


def _price(setup: AgentSetup) -> str:
    """Say what is known of the price before anything is spent."""
    if model_access(setup.client, setup.settings) is None:
        return ""
    price = prices.price_of(setup.settings.model, setup.prices)
    if price:
        return f"${price.input:g} in and ${price.output:g} out per million tokens ({price.as_of})"
    return "price unknown: name it in a file of prices (`evopolicygym docs agents`)"


def _answer(turn: Turn) -> str:
    """Raise UserError for a turn that failed."""
    if turn.failure:
        raise UserError(
            f"it did not answer ({turn.failure.kind}): {turn.failure.text}",
            "Fix this, and repeat the check (`evopolicygym agent check NAME --live` checks one agent).",
        )
    return f"answered in {turn.wall_s:.1f} s"


def _check_tasks(unfinished: Sequence[PlannedRun]) -> Iterator[PreflightCheck]:
    names = {run.settings.task: run.task.id for run in unfinished}
    drawn = [name for name, task in names.items() if is_novel(task)]
    errors = _task_errors([name for name in names if name not in drawn])
    for name, task in names.items():
        message, remedy = errors.get(name, ("", ""))
        outcome = "drawn from the sealing key when it is played" if name in drawn else "its simulator starts"
        yield PreflightCheck(CheckKind.TASK, task, not message, message or outcome, remedy)


def _task_errors(names: Sequence[str]) -> dict[str, tuple[str, str]]:
    """Return what went wrong with each task, and the remedy. A task that ends the process is to blame for that."""
    errors: dict[str, tuple[str, str]] = {}
    while untried := [name for name in names if name not in errors]:
        reported, ending = _try_in_child(untried)
        errors |= reported
        if unreported := [name for name in untried if name not in reported]:
            errors[unreported[0]] = (ending, "`evopolicygym doctor` names what is broken.")
    return {name: error for name, error in errors.items() if error[0]}


def _try_in_child(names: Sequence[str]) -> tuple[dict[str, tuple[str, str]], str]:
    """Return what the child process reported before it ended, and how it ended. It finds modules as runs do."""
    command = [sys.executable, "-c", TRY_TASKS, *names]
    try:
        done = subprocess.run(
            command,
            env={**os.environ, **HEADLESS},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            errors="replace",
            timeout=TASKS_TIMEOUT_S,
        )
        output, ending = done.stdout, f"its simulator ended the process (exit code {done.returncode})"
    except subprocess.TimeoutExpired as error:
        output = error.stdout.decode(errors="replace") if isinstance(error.stdout, bytes) else error.stdout or ""
        ending = f"its simulator did not start within {TASKS_TIMEOUT_S:.0f} s"
    lines = [line.removeprefix(REPORT) for line in output.splitlines() if line.startswith(REPORT)]
    return {name: (message, remedy) for name, message, remedy in map(json.loads, lines)}, ending


def try_tasks(names: Sequence[str]) -> None:
    """Make and reset each task, and print what went wrong. Runs in a process of its own."""
    for name in names:
        message = remedy = ""
        try:
            env = simulator.make(find_task(name))
            simulator.reset(env, 0)
            env.close()
        except UserError as error:
            message, remedy = error.message, error.remedy
        except Exception as error:
            message, remedy = f"{type(error).__name__}: {error}", "`evopolicygym task check TASK` shows more."
        print(f"\n{REPORT}{json.dumps([name, _in_one_line(message), _in_one_line(remedy)])}", flush=True)


def _check_isolation(choice: IsolationChoice) -> PreflightCheck:
    if choice is IsolationChoice.NONE:
        return PreflightCheck(CheckKind.ISOLATION, "policies", True, "none, as asked for: not publishable")
    probes = {level: probe_level(level) for level in choice.levels()}
    best = next((level for level, probe in probes.items() if probe.ok), None)
    if best is not None:
        return PreflightCheck(CheckKind.ISOLATION, "policies", True, f"level {Level(best)}")
    reasons = "; ".join(f"level {level}: {probe.detail}" for level, probe in probes.items())
    return PreflightCheck(CheckKind.ISOLATION, "policies", False, reasons, "`evopolicygym doctor` names the remedy.")


def _check_disk(folder: SuiteFolder, runs: int, rows: Sequence[SuiteRow]) -> PreflightCheck:
    sizes = [_size(folder.run(row.run)) for row in islice((row for row in rows if row.is_over), MEASURED_RUNS)]
    needed = runs * (fmean(sizes) if sizes else RUN_BYTES)
    basis = f"the size of {len(sizes)} finished here" if sizes else f"{RUN_BYTES >> 20} MiB each, a guess"
    existing = next(path for path in (folder.root, *folder.root.parents) if path.exists())
    free = disk_usage(existing).free
    detail = f"{_gib(free)} free; about {_gib(needed)} for {runs} runs (from {basis})"
    remedy = f"Free some space on the disk of {existing}, or choose another one with --folder."
    return PreflightCheck(CheckKind.DISK, str(existing), free > needed, detail, remedy)


def _size(run: Path) -> float:
    with suppress(OSError):
        files = islice(run.rglob("*"), MEASURED_FILES)
        return float(sum(path.lstat().st_size for path in files if path.is_file() and not path.is_symlink()))
    return float(RUN_BYTES)


def _in_one_line(text: str) -> str:
    return one_line(" ".join(text.split()))


def _gib(size: float) -> str:
    return f"{size / (1 << 30):.1f} GiB"
