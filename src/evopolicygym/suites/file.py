"""Read a suite file (tasks x variants x agents x repeats), and plan its runs in the order in which they start."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Annotated, Any, Final, Self

from pydantic import Field, StringConstraints, field_validator, model_validator

from evopolicygym import config
from evopolicygym.config import NumberOutOfRange, StrictModel, parse_toml, read_toml, validate
from evopolicygym.errors import UserError
from evopolicygym.files import real_path
from evopolicygym.gateway.call_limits import CallLimits
from evopolicygym.runs.agent.install_paths import resolve_command
from evopolicygym.runs.folder_names import folder_name, suite_label
from evopolicygym.runs.settings import AgentSettings, RunSettings, ValidateWhen
from evopolicygym.suites.call_gate import CallRate
from evopolicygym.tasks.conditions import FeedbackLevel, OwnModels, TextLevel, Variant
from evopolicygym.tasks.novel.generate import novel
from evopolicygym.tasks.registry import core16, find_task, is_installed_task, unread_task
from evopolicygym.tasks.task import Task

Played = tuple[str, Variant]  # a task by its name, and the variant of it
SEE: Final = "`evopolicygym docs suites` has every key and a whole example."
COLLECTIONS: Final = {"core16": core16, "novel": novel}
MAX_RUNS: Final = 20_000
Name = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$", max_length=80)]  # part of a path


class SuiteSplits(StrictModel):
    """Cases that are played, and the number of hidden ones. A missing key has the default of `evopolicygym run`."""

    seeds: str | None = None
    seal_key: Path | None = None
    validation_cases: int | None = None
    heldout_cases: int | None = None


class RunDefaults(StrictModel):
    """Settings of every run. A missing key has the default of `evopolicygym run`."""

    budget: int | None = None
    validate_when: ValidateWhen | None = None
    video: str | None = None
    stock: bool | None = None
    max_candidates: int | None = None
    text: TextLevel | None = None
    variant: Variant | None = None
    own_models: OwnModels | None = None
    feedback: FeedbackLevel | None = None
    isolation: str | None = None

    @field_validator("validate_when")
    @classmethod
    def _check_validate_when(cls, value: ValidateWhen | None) -> ValidateWhen | None:
        if value:
            value.check_new()
        return value


class SuiteLimits(StrictModel):
    """Limits of each run, unless its agent has limits of its own."""

    turns: int | None = None
    hours: float | None = None
    tokens: int | None = None
    dollars: float | None = None
    requests: int | None = None
    retries: int | None = None
    silent_minutes: float | None = None


class SpendingCap(StrictModel):
    """Limits on what all runs use together. When one is reached, no new run starts, and a running one ends with its
    next call to a model."""

    tokens: int | None = Field(default=None, ge=1)
    dollars: float | None = Field(default=None, gt=0)
    requests: int | None = Field(default=None, ge=1)

    @property
    def limits(self) -> CallLimits:
        return CallLimits(self.tokens, self.dollars, self.requests)


class SuiteAgent(AgentSettings):
    """An agent, under the name of its table. ``name`` is the client's, if that differs."""

    name: str = ""


class Suite(StrictModel):
    name: Name
    tasks: list[str] = Field(min_length=1)
    agents: dict[Name, SuiteAgent] = Field(min_length=1)
    repeats: int = Field(default=1, ge=1, le=1000)
    variants: list[Variant] | None = None
    seed: int = 0
    splits: SuiteSplits = SuiteSplits()
    defaults: RunDefaults = RunDefaults()
    limits: SuiteLimits = SuiteLimits()
    cap: SpendingCap = SpendingCap()
    calls: CallRate = CallRate()

    @field_validator("splits")
    @classmethod
    def _resolve_seal_key(cls, value: SuiteSplits) -> SuiteSplits:
        return value.model_copy(update={"seal_key": value.seal_key and real_path(value.seal_key)})

    @field_validator("tasks", mode="before")
    @classmethod
    def _expand_collections(cls, value: Any) -> Any:
        """Replace a collection, alone or in a list, by its tasks."""
        names = [value] if isinstance(value, str) else value
        if not isinstance(names, list):
            return value
        expanded = [task for name in names for task in _tasks_of(name)]
        return [str(real_path(task)) if str(task).endswith(".toml") else task for task in expanded]

    @classmethod
    def read(cls, path: Path, overrides: Iterable[str] = ()) -> Self:
        data = read_toml(path, "suite file", SEE)
        for text in overrides:
            _override(data, text)
        return validate(cls, {"name": path.stem, **data}, f"the suite file {path}", SEE)

    @model_validator(mode="after")
    def _check_variants(self) -> Self:
        if self.variants == []:
            raise ValueError("variants is empty, so there is nothing to play: name one, or leave it out")
        if self.variants and len(set(self.variants)) < len(self.variants):
            raise ValueError("variants names one of them twice: name each once, and set repeats for more runs")
        if self.variants and self.defaults.variant:
            raise ValueError("variants and defaults.variant cannot both be given: leave one of them out")
        return self

    @model_validator(mode="after")
    def _check_runs(self) -> Self:
        """Check the number of runs before they are planned: a file of a few lines can name billions."""
        runs = len(set(self.tasks)) * len(self.agents) * len(self.played_variants) * self.repeats
        if runs > MAX_RUNS:
            raise ValueError(f"there are {runs:,} runs, and a suite has at most {MAX_RUNS:,}: divide it into several")
        return self

    @property
    def played_variants(self) -> list[Variant]:
        return self.variants or [self.defaults.variant or Variant.PLAIN]

    def settings(self, task: str, agent: str, repeat: int, variant: Variant | None = None) -> RunSettings:
        """Return the settings of one run; of the first variant if none is named. An agent's own limits go before those
        of the suite."""
        entry = self.agents[agent]
        if "seed" in entry.model_fields_set:
            raise UserError(
                f"agents.{agent}.seed: an agent in a suite file cannot have its own seed",
                "Set `seed` of the suite; repeat number R gets seed + R.",
            )
        own = {name: getattr(entry, name) for name in entry.model_fields_set}
        values = {**_given(self.limits), **own, "name": entry.name or agent, "seed": self.seed + repeat}
        agent_settings = validate(AgentSettings, values | _absolute_paths(entry), f"agents.{agent}", SEE)
        given = _given(self.splits) | _given(self.defaults) | {"variant": variant or self.played_variants[0]}
        return RunSettings.make(task=task, name=agent, agent=agent_settings, **given)

    def toml(self) -> str:
        """Return the resolved file: it runs the same suite even if defaults change."""
        first = {agent: self.settings(self.tasks[0], agent, 0) for agent in self.agents}
        run = next(iter(first.values())).model_dump(mode="json", exclude_none=True)
        agents = {
            agent: settings.agent.model_dump(mode="json", exclude_none=True, exclude={"seed"})
            for agent, settings in first.items()
            if settings.agent
        }
        values = self.model_dump(mode="json", exclude_none=True, exclude={"splits", "defaults", "limits", "agents"})
        values["splits"] = {name: run[name] for name in SuiteSplits.model_fields if name in run}
        by_variant = {"variant", *(() if self.defaults.text else ("text",))} if self.variants else set()
        values["defaults"] = {
            name: run[name] for name in RunDefaults.model_fields if name in run and name not in by_variant
        }
        comment = "This suite with all settings resolved. `evopolicygym suite run` on this file continues it."
        return config.to_toml(values | {"agents": agents}, comment)


def _tasks_of(name: Any) -> Iterable[Any]:
    """Return the tasks of a collection, or what is named alone, which is checked later."""
    return COLLECTIONS[name]() if isinstance(name, str) and name in COLLECTIONS else [name]


def _absolute_paths(agent: SuiteAgent) -> dict[str, Any]:
    """Return an agent's paths made absolute, so that the suite can be continued from any folder. The preflight says
    which programs are missing."""
    paths: dict[str, Any] = {
        "command": resolve_command(agent.command, must_exist=False),
        "shown": [real_path(path) for path in agent.shown],
        "prices": agent.prices and real_path(agent.prices),
    }
    return paths | ({"name": str(real_path(agent.name))} if agent.name.endswith(".toml") else {})


def _given(part: StrictModel) -> dict[str, Any]:
    return part.model_dump(exclude_none=True)


def _override(data: dict[str, Any], text: str) -> None:
    """Apply one ``--set``, such as ``agents.codex.model=...``: the value is TOML, or else a string."""
    name, equals, value = text.partition("=")
    if not equals or not (keys := _keys(name)):
        raise UserError(f"--set {text} has no value", "Write --set NAME=VALUE, for example --set repeats=3.")
    *tables, last = keys
    for table in tables:
        data = data.setdefault(table, {})
        if not isinstance(data, dict):
            raise UserError(f"--set {text}: {table} is not a table", SEE)
    data[last] = _value(name.strip(), value.strip())


def _keys(name: str) -> list[str]:
    """Split a TOML key: ``agents."gpt-5.5".model`` has three parts."""
    try:
        table: Any = parse_toml(f"{name.strip()} = 0")
    except ValueError:
        return []
    keys: list[str] = []
    while isinstance(table, dict):
        ((key, table),) = table.items()
        keys.append(key)
    return keys


def _value(name: str, text: str) -> Any:
    try:
        return parse_toml(f"value = {text}")["value"]
    except NumberOutOfRange as error:
        raise UserError(f"--set {name}: {error}", SEE) from error
    except ValueError:
        return text


@dataclass(frozen=True)
class PlannedRun:
    """One run of a suite. ``name`` is its folder, and does not depend on other runs: a suite can grow."""

    name: str
    task: Task
    agent: str
    repeat: int
    settings: RunSettings


def plan(suite: Suite, is_trusted: bool = True) -> list[PlannedRun]:
    """List the runs round by round: after each round, all agents have played all tasks once more.

    The file of a suite that is only looked at may come from another person. If it is not ``is_trusted``, no module and
    no file that it names is loaded: tasks that are not installed are known by their id alone."""
    find = find_task if is_trusted else _named_task
    tasks = {name: find(name) for name in dict.fromkeys(suite.tasks)}
    if is_trusted:
        for task, variant in product(tasks.values(), suite.played_variants):
            task.check_variant(variant)
    played = [(name, variant) for name in tasks for variant in suite.played_variants]
    planned = [
        _planned(suite, name, variant, tasks[name], agent, repeat)
        for repeat in range(suite.repeats)
        for (name, variant), agent in _round(played, list(suite.agents))
    ]
    _check_names(planned)
    return planned


def _named_task(name: str) -> Task:
    return find_task(name) if is_installed_task(name) else unread_task(name)


def _round(tasks: list[Played], agents: list[str]) -> Iterator[tuple[Played, str]]:
    """Pair all tasks with an agent each, then all tasks with the next agent each.

    So neighbours have different tasks, whose hidden scoring need not wait for one another's agents, and different
    agents, which often have different providers.
    """
    for turn in range(len(agents)):
        for number, task in enumerate(tasks):
            yield task, agents[(number + turn) % len(agents)]


def _check_names(planned: Iterable[PlannedRun]) -> None:
    """Refuse two runs that would share one folder."""
    first: dict[str, PlannedRun] = {}
    for run in planned:
        other = first.setdefault(run.name, run)
        if other is not run:
            pairs = f"{other.settings.task} with {other.agent} and {run.settings.task} with {run.agent}"
            raise UserError(f"{pairs} would be the same run, {run.name}", "Name each task once, or rename one of them.")


def _planned(suite: Suite, name: str, variant: Variant, task: Task, agent: str, repeat: int) -> PlannedRun:
    settings = suite.settings(name, agent, repeat, variant)
    folder = folder_name(suite_label(settings, task), agent, f"s{suite.seed + repeat}")
    return PlannedRun(folder, task, agent, repeat, settings)
