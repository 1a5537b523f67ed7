"""The names that would give a task away, for the tests that look for them."""

from __future__ import annotations

import re
from dataclasses import dataclass

from evopolicygym.tasks.task import Task

# Words of titles that any text may have; "two" and the like are too short to tell a task.
COMMON = {"with", "from", "without", "possible", "every", "given", "right", "above", "below", "find", "open", "over"}
COMMON |= {"free", "line", "forward", "little", "ground", "seen", "goal", "bring", "fast", "push", "drive", "walk"}
COMMON |= {"into", "unknown", "around", "leave", "pass", "enter", "target", "round", "pick", "clear", "fetch", "table"}
COMMON |= {
    "slightly",
    "closed",
    "connected",
    "room",
    "rooms",
    "spot",
    "heading",
    "crash",
    "busy",
    "down",
    "plane",
    "step",
}


@dataclass(frozen=True)
class TaskNames:
    """Names of one environment: of itself, its family, its package, and the words of its title."""

    names: frozenset[str]

    def found_in(self, text: str) -> set[str]:
        """Return the names that stand in a text as words of their own, in any case."""
        lower = text.lower()
        return {name for name in self.names if re.search(rf"(?<![a-z]){re.escape(name)}(?![a-z])", lower)}


def names_of(task: Task) -> TaskNames:
    slug = task.id.rpartition("/")[2]
    env = task.env_id.rpartition("-v")[0]
    title = re.findall(r"[A-Za-z]{4,}", task.title)
    camel = re.sub(r"(?<=[a-z])(?=[A-Z])", "-", env)
    keys = {row.key for row in (*task.observation, *task.action) if row.key} - {"observation"}
    names = {
        task.id,
        slug,
        slug.replace("-", "_"),
        slug.replace("-", ""),
        task.env_id,
        env,
        camel,
        camel.replace("-", "_"),
    }
    names |= {task.family, *task.requires, *title, *keys}
    return TaskNames(frozenset(name.lower() for name in names) - COMMON)
