"""The contract text of a task: Markdown that an agent reads, complete without any other documentation."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from evopolicygym.limits import WALL_FACTOR
from evopolicygym.tasks.spaces import Schema, describe, json_safe
from evopolicygym.tasks.task import SpaceEntry, Task

RULES = """\
`policy.py` defines a class `Policy` with three methods; other modules, weights and tables may lie beside it.

- `__init__(self, obs_space, action_space, env_meta)`: three plain dicts: the two spaces above and
  {env_meta}.
  A space has a `type` and, as that needs, `shape`, `dtype`, `low` and `high` (one number for all entries, or lists),
  `n`, `start`, `spaces`, and `names` and `units` of its entries.
- `reset(self, episode_index)`: called once before the first `act`; `episode_index` is always 0.
- `act(self, obs)`: returns one action for one observation.

{example}
- Every episode runs in a fresh process: the module is imported anew, a new `Policy` is made, and nothing passes from
  one episode to another. Repeating a case gives the same result, to the last bit.
- Observations are numpy arrays, ints, strings, or dicts of them, exactly as described above, in the space's own dtype.
- Actions are cast to the space's dtype. Box actions outside the bounds are clipped, and counted in the feedback. NaN or
  infinite numbers, a wrong shape or type, and integers out of range end the episode as failed.
- {may_import}. There is no network, no other process, and no file to write; what is printed comes back in the feedback
  (the first 64 KiB each of stdout and stderr).
- Randomness is keyed by the case: `random`, `numpy.random` and `os.urandom` need no seed and still repeat. What depends
  on clocks or on memory addresses does not.
- A failed episode (exception, invalid action, time or memory limit) scores min(return so far, {failure}), so that
  crashing never pays. Why that number: {derivation}
- Limits: {init:g} s of CPU time to import and construct, {act:g} s for each `reset` and `act`, {episode:g} s for the
  whole process, {memory} MiB of memory; {factor:g} times as much wall time as a backstop. One CPU core.
"""


def render(task: Task, observation: Schema, action: Schema) -> str:
    """Return the whole text. The schemas come from the live environment, so that the text cannot be out of date."""
    parts = [
        f"# {task.title}",
        f"Task `{task.id}` (Gymnasium `{task.env_id}`), version {task.version}.",
        _section("Objective", task.objective),
        _space_section("Observation", observation, task.observation, task.observation_notes),
        _space_section("Action", action, task.action, task.action_notes),
        _section("Reward", task.reward),
        _section("Start", task.start),
        _section("End of an episode", task.termination),
        f"## Horizon\nAt most {task.horizon} steps.",
        _section("Dynamics", task.dynamics),
        f"## The policy\n{_rules(task, observation, action)}",
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _section(title: str, text: str) -> str:
    return f"## {title}\n{text.strip()}" if text.strip() else ""


def _space_section(title: str, schema: Schema, rows: tuple[SpaceEntry, ...], notes: str) -> str:
    lines = [f"## {title}", f"`{describe(schema)}`"]
    if not rows:
        lines += ["", "```json", _as_json(schema), "```"]
    if rows:
        lines += ["", *_table(rows)]
    if notes.strip():
        lines += ["", notes.strip()]
    return "\n".join(lines)


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


def _rules(task: Task, observation: Schema, action: Schema) -> str:
    return RULES.format(
        env_meta=f"`{task.env_meta()}`",
        example=f"```python\n{starter(action)}```\n",
        may_import="Policies may import the standard library, numpy, scipy and the files beside `policy.py`",
        failure=f"{task.failure_return.value:g}",
        derivation=task.failure_return.derivation.strip(),
        init=task.limits.init_cpu_s,
        act=task.limits.act_cpu_s,
        episode=task.limits.episode_cpu_s,
        memory=task.limits.memory_mb,
        factor=WALL_FACTOR,
    )


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
