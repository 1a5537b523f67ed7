"""The text of a task at each level: Markdown that an agent reads. All levels are rendered from the same task, and end
with the same section about the policy, so that they cannot disagree."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable, Iterator
from typing import Any, Final

import numpy as np

from evopolicygym.limits import WALL_FACTOR
from evopolicygym.tasks.conditions import TextLevel, Variant
from evopolicygym.tasks.spaces import Schema, describe, json_safe
from evopolicygym.tasks.task import BriefText, SpaceEntry, Task

METHODS: Final = """\
`policy.py` defines a class `Policy` with three methods; other modules, weights and tables may lie beside it.

- `__init__(self, obs_space, action_space, env_meta)`: three plain dicts, described below the example.
- `reset(self, episode_index)`: called once before the first `act`; `episode_index` is always 0.
- `act(self, obs)`: returns one action for one observation.
"""
WIDTH: Final = 120
CHANGED_RULES: Final = """\
**Some of the rules differ from those of the standard environment, and from what is written below:** how it moves, what
actions do, or what is observed. Some of this may be different in every case. The spaces, the reward and the end of an
episode are the standard ones. Find out from the feedback what has changed.\
"""
VALUES: Final = {  # what a part of an observation is, by the type of its space
    "Box": "numpy arrays of the space's shape and dtype",
    "MultiBinary": "numpy arrays of the space's shape and dtype",
    "MultiDiscrete": "numpy arrays of the space's shape and dtype",
    "Discrete": "ints",
    "Text": "strings",
}
FIELDS: Final = {  # of a space as a dict, by its type
    "Box": ("shape", "dtype", "low", "high"),
    "MultiBinary": ("shape", "dtype", "n"),
    "MultiDiscrete": ("shape", "dtype", "nvec", "start"),
    "Discrete": ("n", "start"),
    "Text": ("max_length",),
    "Dict": ("spaces",),
    "Tuple": ("spaces",),
}


def render(task: Task, observation: Schema, action: Schema) -> str:
    """Return the text at the level of the task's view. The spaces are those of the live environment as a policy sees
    them, so that the text cannot be out of date."""
    sections = {TextLevel.BRIEF: _brief, TextLevel.FULL: _full, TextLevel.BLIND: _blind}[task.view.text]
    parts = [*sections(task, observation, action), policy_section(task, observation, action)]
    return "\n\n".join(part for part in parts if part) + "\n"


def _brief(task: Task, observation: Schema, action: Schema) -> Iterator[str]:
    """Yield what an agent of the paper could read: a sentence for each part, and the spaces."""
    text = brief_text(task)
    yield f"# {task.id}"
    origin = _origin(task)
    yield f"{origin[0].upper()}{origin[1:]}, version {task.version}."
    yield _changed_rules(task)
    yield _section("Objective", text.objective)
    yield _section("Observation", _join(text.observation, space_text(observation)))
    yield _section("Action", _join(text.action, space_text(action)))
    yield _section("Reward", text.reward)
    yield _horizon(task)


def _full(task: Task, observation: Schema, action: Schema) -> Iterator[str]:
    """Yield all that the task file says."""
    yield f"# {task.title}"
    yield f"Task `{task.id}` ({_origin(task)}), version {task.version}."
    yield _changed_rules(task)
    yield _section("Objective", task.objective)
    yield _section("Observation", _join(_entries(observation, task.observation), task.observation_notes))
    yield _section("Action", _join(_entries(action, task.action), task.action_notes))
    yield _section("Reward", task.reward)
    yield _section("Start", task.start)
    yield _section("End of an episode", task.termination)
    yield _horizon(task)
    yield _section("Dynamics", task.dynamics)
    yield _section(f"Why failed episodes score at most {task.shown_failure_return:g}", task.failure_return.derivation)


def _blind(task: Task, observation: Schema, action: Schema) -> Iterator[str]:
    """Yield nothing but the spaces and the horizon: no name, no meaning, no unit."""
    yield "# The task"
    yield "What the task is about is not told. The return of an episode is the sum of its rewards; higher is better."
    yield _section("Observation", space_text(observation))
    yield _section("Action", space_text(action))
    yield _horizon(task)


def _origin(task: Task) -> str:
    return "generated, and published nowhere" if task.view.world_key else f"Gymnasium `{task.env_id}`"


def brief_text(task: Task) -> BriefText:
    """Return the sentences of the brief text; of a task without them the first ones of its longer texts."""
    if task.brief:
        return task.brief
    texts = (task.objective, task.observation_notes, task.action_notes, task.reward)
    return BriefText(*(first_sentence(text) for text in texts))


def first_sentence(text: str) -> str:
    paragraph = " ".join(text.strip().partition("\n\n")[0].split())
    sentence = re.split(r"(?<=[.!?])\s", paragraph, maxsplit=1)[0]
    return re.sub(r"[:;,]$", ".", sentence)


def space_text(schema: Schema) -> str:
    """Return a space with its bounds. The children of a Dict or Tuple are listed below it."""
    children = schema.get("spaces", {})
    named = children.items() if isinstance(children, dict) else enumerate(children)
    lines = (f"- `{name}`: {space_text(child)}".replace("\n", "\n  ") for name, child in named)
    return "\n".join((f"`{_head(schema)}`{_bounds(schema)}", *(("", *lines) if children else ())))


def _head(schema: Schema) -> str:
    return schema["type"] if "spaces" in schema else describe(schema)


def _bounds(schema: Schema) -> str:
    match schema["type"]:
        case "Box":
            low, high = (_numbers(schema[bound], schema["dtype"]) for bound in ("low", "high"))
            return f" from {low} to {high}" if "[" not in low + high else f", low {low}, high {high}"
        case "Text":
            return f" of at most {schema['max_length']} characters"
    return ""


def _numbers(bound: Any, dtype: str) -> str:
    """Return a bound in the shortest form that its dtype distinguishes."""
    if isinstance(bound, list):
        return "[" + ", ".join(_numbers(each, dtype) for each in bound) + "]"
    return str(np.dtype(dtype).type(bound)).removesuffix(".0")


def _section(title: str, text: str) -> str:
    return f"## {title}\n{text.strip()}" if text.strip() else ""


def _join(*parts: str) -> str:
    return "\n\n".join(part.strip() for part in parts if part.strip())


def _changed_rules(task: Task) -> str:
    """Return the notice of a shifted task. It says that rules have changed, never which."""
    return CHANGED_RULES if task.view.variant is Variant.SHIFTED else ""


def _horizon(task: Task) -> str:
    return f"## Horizon\nAt most {task.shown_horizon} steps."


def _entries(schema: Schema, rows: tuple[SpaceEntry, ...]) -> str:
    table = "\n".join(_table(rows)) if rows else f"```json\n{_as_json(schema)}\n```"
    return f"`{describe(schema)}`\n\n{table}"


def _table(rows: tuple[SpaceEntry, ...]) -> Iterable[str]:
    keyed = any(row.key for row in rows)
    yield ("| key " if keyed else "") + "| index | name | unit | range | meaning |"
    yield ("|---" if keyed else "") + "|---|---|---|---|---|"
    for row in rows:
        key = f"| `{row.key}` " if keyed else ""
        names = ", ".join(row.all_names())
        yield f"{key}| {row.index} | {names} | {row.unit} | {row.range} | {row.meaning} |"


def _as_json(schema: Schema) -> str:
    import json

    return json.dumps(json_safe(schema), indent=1)


def policy_section(task: Task, observation: Schema, action: Schema) -> str:
    """Return the policy's contract: the same at every level, and only what concerns these spaces."""
    rules = "\n".join(
        textwrap.fill(rule, WIDTH, initial_indent="- ", subsequent_indent="  ", break_on_hyphens=False)
        for rule in _policy_rules(task, observation, action)
    )
    return f"## The policy\n{METHODS}\n```python\n{starter(action)}```\n\n{rules}"


def _policy_rules(task: Task, observation: Schema, action: Schema) -> Iterator[str]:
    limits = task.limits
    kinds = [space["type"] for space in (*_all_spaces(observation), *_all_spaces(action))]
    fields = dict.fromkeys(field for kind in kinds for field in FIELDS[kind])
    yield (
        f"`obs_space` and `action_space` have a `type` and, as that needs, {_listed(f'`{name}`' for name in fields)}; "
        "`names` and `units` of entries only where the text above has them. `env_meta` has `env`, `task`, "
        "`env_version` and `max_episode_steps`."
    )
    yield (
        "Every episode runs in a fresh process: the module is imported anew, a new `Policy` is made, and nothing "
        "passes from one episode to another."
    )
    yield f"Observations are {_observations(observation)}."
    yield _action_rule(action)
    yield (
        "Policies may import the standard library, numpy, scipy and the files beside `policy.py`. There is no network, "
        "no other process, and no file to write."
    )
    yield (
        "Randomness is keyed by the case: `random`, `numpy.random` and `os.urandom` need no seed and still repeat. "
        "What depends on clocks or on memory addresses does not."
    )
    yield (
        "A failed episode (exception, invalid action, time or memory limit) scores min(return so far, "
        f"{task.shown_failure_return:g}), so that crashing never pays."
    )
    yield (
        f"Limits: {limits.init_cpu_s:g} s of CPU time to import and construct, {limits.act_cpu_s:g} s for each `reset` "
        f"and `act`, {limits.episode_cpu_s:g} s for the whole process, {limits.memory_mb} MiB of memory; "
        f"{WALL_FACTOR:g} times as much wall time as a backstop. One CPU core."
    )


def _observations(schema: Schema) -> str:
    """Return in words what a policy gets for an observation."""
    values = dict.fromkeys(VALUES[space["type"]] for space in _all_spaces(schema) if "spaces" not in space)
    words = _listed(values, "or")
    match schema["type"]:
        case "Dict":
            return f"dicts whose values are {words}"
        case "Tuple":
            return f"tuples of {words}"
    return words


def _action_rule(schema: Schema) -> str:
    kinds = {space["type"] for space in _all_spaces(schema)}
    invalid = [
        *(["NaN or infinite numbers"] if "Box" in kinds else []),
        *(["integers out of range"] if kinds & {"Discrete", "MultiDiscrete", "MultiBinary"} else []),
        "a wrong shape or type",
    ]
    cast = "Actions are cast to the space's dtype. " if kinds - {"Discrete", "Dict", "Tuple"} else ""
    clipped = "Numbers outside the bounds are clipped, and counted in the feedback. " if "Box" in kinds else ""
    failing = _listed(invalid, "and")
    return f"{cast}{clipped}{failing[0].upper()}{failing[1:]} end the episode as failed."


def _all_spaces(schema: Schema) -> Iterator[Schema]:
    """Yield a space and all spaces within it."""
    yield schema
    children = schema.get("spaces", ())
    for child in children.values() if isinstance(children, dict) else children:
        yield from _all_spaces(child)


def _listed(words: Iterable[str], last: str = "and") -> str:
    *firsts, final = words
    return f"{', '.join(firsts)} {last} {final}" if firsts else final


def starter(action: Schema) -> str:
    """Return the example policy of the contract: the source of a policy that plays one constant action."""
    return f"""\
import numpy as np


class Policy:
    def __init__(self, obs_space, action_space, env_meta):
        self.steps = 0

    def reset(self, episode_index):
        self.steps = 0

    def act(self, obs):
        self.steps += 1
        return {_example_action(action)}
"""


def _example_action(schema: Schema) -> Any:
    match schema["type"]:
        case "Discrete":
            return schema["start"]
        case "Dict":
            return "{" + ", ".join(f"{key!r}: {_example_action(c)}" for key, c in schema["spaces"].items()) + "}"
        case "Tuple":
            return "(" + "".join(f"{_example_action(child)}, " for child in schema["spaces"]) + ")"
        case "MultiDiscrete" if np.any(schema["start"]):
            return f"np.array({schema['start']}, np.{schema['dtype']})"
    return f"np.zeros({tuple(schema['shape'])}, np.{schema['dtype']})"
