"""The checks of `task check`: rules that every task must keep, tested by playing it through the jail."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from evopolicygym.errors import UserError
from evopolicygym.execution.engine import LocalEngine
from evopolicygym.execution.records import Episode, EpisodeResult, FaultReport
from evopolicygym.sandbox.checkpoints import Checkpoint, CheckpointStore
from evopolicygym.sandbox.policy.protocol import ErrorKind
from evopolicygym.tasks import simulator
from evopolicygym.tasks.conditions import TaskView, TextLevel, Variant
from evopolicygym.tasks.contract import brief_text, first_sentence, render
from evopolicygym.tasks.spaces import Schema, describe
from evopolicygym.tasks.splits import Case, PaperSplits, Split, cases
from evopolicygym.tasks.task import SpaceEntry, Task
from evopolicygym.tasks.translation import translation_of

PLAYS: Final = ("zero", "low", "high", "random")
CRASH_STEPS: Final = (0, 1, 10)
DISGUISED: Final = TaskView(TextLevel.BLIND, Variant.DISGUISED, key=bytes(32))
SHIFT_KEYS: Final = (bytes(32), bytes([1]) * 32)
PROBE: Final = Path(__file__).parent / "probe" / "policy.py"


@dataclass(frozen=True)
class RuleCheck:
    """One rule, whether it holds, and what was observed."""

    rule: str
    ok: bool
    detail: str = ""


@dataclass(frozen=True)
class ProbeRun:
    """One way to play one case, to the end or to a crash."""

    play: str
    crash_at: int | None
    case: Case


def check_task(task: Task, n_cases: int = 2, jobs: int = 2) -> list[RuleCheck]:
    """Check all rules on the first ``n_cases`` train cases of the public list."""
    played = cases(PaperSplits(), task.id, Split.TRAIN, list(range(n_cases)))
    with LocalEngine(task, jobs) as engine:
        static = _check_declarations(task, engine.obs_space, engine.action_space)
        full = _play_all(engine, [ProbeRun(play, None, case) for play in PLAYS for case in played])
        again = _play_all(engine, [ProbeRun("random", None, case) for case in reversed(played)])
        crashes = [ProbeRun(play, step, case) for play in PLAYS for step in CRASH_STEPS for case in played]
        crashed = _play_all(engine, crashes)
    faults = [outcome for outcome in (*full.values(), *again.values()) if isinstance(outcome, FaultReport)]
    if faults:
        return [*static, RuleCheck("the simulator plays", False, faults[0].text)]
    return [*static, *_check_episodes(task, _results(full), _results(again), _results(crashed))]


def _check_declarations(task: Task, observation: Schema, action: Schema) -> list[RuleCheck]:
    text = render(task.seen(TaskView(TextLevel.FULL)), observation, action)
    return [
        RuleCheck(
            "declared observation space is the live one",
            describe(observation) == task.observation_space,
            describe(observation),
        ),
        RuleCheck("declared action space is the live one", describe(action) == task.action_space, describe(action)),
        _check_entries("every observation entry is named", observation, task.observation),
        _check_entries("every action entry is named", action, task.action),
        RuleCheck("contract text has every part", all(part.strip() in text for part in _text_parts(task)), ""),
        _check_brief(task),
        _check_disguise(task, observation, action),
        *([_check_shift(task)] if task.shift else []),
    ]


def _check_disguise(task: Task, observation: Schema, action: Schema) -> RuleCheck:
    """Make the disguise of these spaces: any task can be played in disguise, and its table may not fit them."""
    rule = "the disguise fits the environment"
    try:
        translation_of(task.seen(DISGUISED), observation, action)
    except UserError as error:
        return RuleCheck(rule, False, error.message)
    return RuleCheck(rule, True, "")


def _check_shift(task: Task) -> RuleCheck:
    """Play one step under some keys: attributes that a reset makes are found only then."""
    rule = "the shift fits the environment"
    try:
        with simulator.prints_to_stderr():
            for key in SHIFT_KEYS:
                env = simulator.make(task.seen(TaskView(variant=Variant.SHIFTED, key=key)))
                simulator.reset(env, 0)
                env.step(env.action_space.sample())
                env.close()
    except UserError as error:
        return RuleCheck(rule, False, str(error))
    except Exception as error:  # the environment's own code
        return RuleCheck(rule, False, f"{type(error).__name__}: {error}")
    return RuleCheck(rule, True, "")


def _check_brief(task: Task) -> RuleCheck:
    texts = asdict(brief_text(task))
    longer = [name for name, sentence in texts.items() if first_sentence(sentence) != sentence]
    generated = "" if task.brief else "generated from the first sentences of the other texts"
    return RuleCheck("the brief text is a sentence for each part", not longer, ", ".join(longer) or generated)


def _text_parts(task: Task) -> tuple[str, ...]:
    return (task.objective, task.reward, task.termination, task.start, task.dynamics, task.failure_return.derivation)


def _check_entries(rule: str, schema: Schema, rows: tuple[SpaceEntry, ...]) -> RuleCheck:
    if not rows:
        return RuleCheck(rule, True, "no table: the text shows the schema")
    leaves = [(name, child, [row for row in rows if row.key == name]) for name, child in _leaves(schema)]
    wrong = [
        f"{f'key {name!r}: ' if name else ''}{_wanted(child)}; the table has {_described(own)}"
        for name, child, own in leaves
        if not _covered(child, own)
    ]
    return RuleCheck(rule, not wrong, ". ".join(wrong))


def _wanted(schema: Schema) -> str:
    """Return what a table of this space must hold (see ``_covered``)."""
    if schema["type"] == "Discrete":
        return f"Discrete({schema['n']}) needs 1 row, or {schema['n']}"
    if schema["type"] == "Box" and len(schema["shape"]) == 1:
        return f"a vector of {schema['shape'][0]} entries needs {schema['shape'][0]} different names"
    return f"{schema['type']} needs a row"


def _described(rows: list[SpaceEntry]) -> str:
    names = [name for row in rows for name in row.all_names()]
    return f"rows: {len(rows)}, different names: {len(set(names))}"


def _leaves(schema: Schema) -> Iterable[tuple[str, Schema]]:
    if schema["type"] == "Dict":
        return [(str(key), child) for key, child in schema["spaces"].items()]
    return [("", schema)]


def _covered(schema: Schema, rows: list[SpaceEntry]) -> bool:
    names = [name for row in rows for name in row.all_names()]
    if schema["type"] == "Discrete":
        return len(rows) in (1, schema["n"])
    if schema["type"] == "Box" and len(schema["shape"]) == 1:
        return len(names) == schema["shape"][0] and len(set(names)) == len(names)
    return bool(rows)


def _play_all(engine: LocalEngine, plays: list[ProbeRun]) -> dict[ProbeRun, EpisodeResult | FaultReport]:
    checkpoints = {(play.play, play.crash_at): None for play in plays}
    stored = {key: _store(engine.store, *key) for key in checkpoints}
    episodes = [Episode(i, stored[play.play, play.crash_at], play.case) for i, play in enumerate(plays)]
    return {plays[outcome.number]: outcome for outcome in engine.run(episodes)}


def _store(store: CheckpointStore, play: str, crash_at: int | None) -> Checkpoint:
    with tempfile.TemporaryDirectory() as folder:
        return store.snapshot(probe_folder(Path(folder), play, crash_at))


def probe_folder(folder: Path, play: str, crash_at: int | None = None, **options: Any) -> Path:
    """Write a policy folder that plays trivially, and return it. ``options``: ``repeat`` or ``action``."""
    shutil.copyfile(PROBE, folder / "policy.py")
    (folder / "probe.json").write_text(json.dumps({"play": play, "crash_at": crash_at, **options}))
    return folder


def _results(outcomes: dict[ProbeRun, Any]) -> dict[ProbeRun, EpisodeResult]:
    return {play: outcome for play, outcome in outcomes.items() if isinstance(outcome, EpisodeResult)}


def _check_episodes(
    task: Task,
    full: dict[ProbeRun, EpisodeResult],
    again: dict[ProbeRun, EpisodeResult],
    crashed: dict[ProbeRun, EpisodeResult],
) -> list[RuleCheck]:
    failed = [f"{play.play}: {result.error.text}" for play, result in full.items() if result.error]
    differing = [play.case.index for play, result in again.items() if _numbers(full[play]) != _numbers(result)]
    worst = min(result.score for result in full.values())
    too_long = [result.length for result in full.values() if result.length > task.horizon]
    unmarked = [r.length for r in full.values() if r.length == task.horizon and not (r.truncated or r.terminated)]
    return [
        RuleCheck("simple policies play to the end", not failed, "; ".join(failed[:1])),
        RuleCheck(
            "an episode is never longer than the horizon, and says how it ended",
            not (too_long or unmarked),
            f"lengths {sorted({result.length for result in full.values()})}",
        ),
        RuleCheck("a repeated case gives the same result", not differing, f"cases {differing}" if differing else ""),
        RuleCheck(
            "no way of playing scores less than the failure return",
            worst >= task.failure_return.value,
            f"worst {worst:g}, failure return {task.failure_return.value:g}",
        ),
        _crashing_never_pays(full, crashed),
    ]


def _numbers(result: EpisodeResult) -> tuple[float, int, bool, bool]:
    return result.score, result.length, result.terminated, result.truncated


def _crashing_never_pays(full: dict[ProbeRun, EpisodeResult], crashed: dict[ProbeRun, EpisodeResult]) -> RuleCheck:
    """Compare each crash with the same way of playing on the same case to the end."""
    better = []
    for play, result in crashed.items():
        whole = full[ProbeRun(play.play, None, play.case)]
        if result.error and result.error.kind is ErrorKind.ACT_ERROR and result.score > whole.score:
            better.append(f"{play.play} at step {play.crash_at}: {result.score:g} > {whole.score:g}")
    tried = sum(result.error is not None for result in crashed.values())
    return RuleCheck("crashing never pays", not better, "; ".join(better) or f"{tried} crashes tried")
