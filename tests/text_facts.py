"""Names that would give a task away, and the lengths of its texts: `python tests/text_facts.py` writes those to
docs/tasks.md."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from evopolicygym.tasks import simulator
from evopolicygym.tasks.conditions import TaskView, TextLevel
from evopolicygym.tasks.contract import render
from evopolicygym.tasks.registry import CORE16_ORDER, core16
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


DOCS = Path(__file__).parents[1] / "docs" / "tasks.md"
TABLE = re.compile(r"(?<=\n\n)\| task \| brief \| full \| blind \|\n(\|.*\n)*")
CHARACTERS = 4  # per token, about what tokenizers of language models need for English


def task_texts(task: Task) -> dict[TextLevel, str]:
    env = simulator.make(task)
    seen = [task.seen(TaskView(level)) for level in TextLevel]
    texts = {task.view.text: render(task, *simulator.schemas(task, env)) for task in seen}
    env.close()
    return texts


def token_table() -> str:
    """Return the table of docs/tasks.md: tokens of each text of each task."""
    levels = (TextLevel.BRIEF, TextLevel.FULL, TextLevel.BLIND)
    lines = ["| task | brief | full | blind |", "|---|---|---|---|"]
    for slug in CORE16_ORDER:
        texts = task_texts(core16()[f"core16/{slug}"])
        counts = (f"{round(len(texts[level]) / CHARACTERS):,}" for level in levels)
        lines.append(f"| {slug} | {' | '.join(counts)} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    DOCS.write_text(TABLE.sub(token_table(), DOCS.read_text(), count=1))
