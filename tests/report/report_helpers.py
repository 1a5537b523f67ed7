"""Write runs to report on, and parse report pages more strictly than a browser does."""

from __future__ import annotations

import random
import sys
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "analysis"))  # where the makers of run folders live
from run_folders import Step, result, source, write_run

from evopolicygym.reference import paper

__all__ = ["Page", "Step", "read", "result", "source", "three_agents", "whole_collection", "write_run"]

VOID = {"meta", "br", "hr", "img", "link", "input"}


def steps(seed: int, number: int = 12) -> list[Step]:
    """Return submissions with synthesis and parametric edits, a failure, a retest and a rollback."""
    draw = random.Random(seed)
    made = []
    for i in range(number):
        shape = "\n".join(
            f"    if observation[{j}] > {draw.random():.3f}:\n        return {j}" for j in range(1 + i // 4)
        )
        text = f"GAIN = {draw.random():.4f}\n\n\ndef act(observation):\n{shape}\n    return GAIN\n"
        score = -300.0 + 15 * i + draw.uniform(-40, 40)
        made.append(source(text, validation=score, returns=[score, score + 5]))
    made.insert(5, source("import nothing\n", validation=None, verdict="import_error"))
    made.insert(7, made[6])
    made.append(made[1])
    return made


def three_agents(folder: Path, seeds: int = 2) -> Path:
    for agent in ("tuner", "coder", "planner"):
        for seed in range(seeds):
            for task, demand in (("core16/acrobot", "tuning"), ("core16/reacher", "synthesis")):
                name = f"{task.split('/')[1]}-{agent}-s{seed}"
                write_run(folder / name, steps(hash_of(name)), task=task, demand=demand, agent=agent)
    return folder


def whole_collection(folder: Path) -> Path:
    """Write runs of two agents, a cheap and an expensive one, on all of Core16."""
    demands = {task: demand for demand, tasks in paper.demands().items() for task in tasks}
    for i, task in enumerate(paper.core16()):
        for agent, dollars in (("cheap", 1.0), ("dear", 20.0)):
            score = paper.published()[task]["random"] + (1.0 if agent == "dear" else 0.0)
            made = [source(f"x = {k}\n", validation=score - 2 + k) for k in range(3)]
            written = write_run(folder / f"{i:02}-{agent}", made, task=task, agent=agent, demand=demands[task])
            written.facts["usage"] = {"dollars": dollars}
            written.rewrite()
    return folder


def hash_of(name: str) -> int:
    return sum(ord(letter) * (i + 1) for i, letter in enumerate(name))


@dataclass
class Page(HTMLParser):
    """A parsed page: ``tags`` with their attributes, ``text`` as it is read, and ``wrong``: what is not valid."""

    tags: list[tuple[str, dict[str, str | None]]] = field(default_factory=list)
    open: list[str] = field(default_factory=list)
    text: list[str] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__(convert_charrefs=True)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if not self.open or self.open.pop() != tag:
            self.wrong.append(f"</{tag}> at {self.getpos()}")

    def handle_data(self, data: str) -> None:
        self.text.append(data)


def read(path: Path) -> Page:
    page = Page()
    page.feed(path.read_text(encoding="utf-8"))
    page.close()
    assert not page.wrong and not page.open
    return page
