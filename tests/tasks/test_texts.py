"""The three texts of a task: what each tells, and what it does not."""

from __future__ import annotations

import re
from functools import cache

import pytest

from evopolicygym.runs.instructions import render_instructions
from evopolicygym.runs.settings import RunSettings
from evopolicygym.tasks.conditions import TextLevel
from evopolicygym.tasks.contract import brief_text, first_sentence
from evopolicygym.tasks.registry import CORE16_ORDER, core16, parse_task
from evopolicygym.tasks.task import Task
from text_facts import CHARACTERS, DOCS, names_of, task_texts, token_table

SPACE = {"type": "Box", "shape": [6], "dtype": "float32", "low": -1.0, "high": 1.0}
NUMBER = re.compile(r"\d")


@cache
def texts(slug: str) -> dict[TextLevel, str]:
    return task_texts(core16()[f"core16/{slug}"])


def about_the_task(text: str) -> str:
    return text.partition("\n## The policy\n")[0]


@pytest.mark.parametrize("slug", CORE16_ORDER)
def test_the_brief_text_is_a_sentence_for_each_part(slug):
    task = core16()[f"core16/{slug}"]
    text = about_the_task(texts(slug)[TextLevel.BRIEF])
    assert task.brief and task.id in text and task.env_id in text
    for sentence in vars(task.brief).values():
        assert sentence in text and first_sentence(sentence) == sentence
        assert not NUMBER.search(sentence)  # no constant, no unit


DYNAMICS = re.compile(
    r"\d *(m|s|kg|rad|N|Hz|cm|mm|degrees|m/s)\b"
    r"|\b(mass|inertia|gravity|friction|damping|springs?|gears?|integrated|radius|density|noise|random walk|per step)\b"
    r"|\b(sqrt|sin|cos|sum|atan2)\(| = "
)


@pytest.mark.parametrize("slug", CORE16_ORDER)
def test_the_brief_text_tells_no_dynamics(slug):
    task, brief = core16()[f"core16/{slug}"], about_the_task(texts(slug)[TextLevel.BRIEF])
    assert not DYNAMICS.search(brief), DYNAMICS.search(brief)
    assert task.family == "minigrid" or len(set(DYNAMICS.findall(task.dynamics))) > 2


@pytest.mark.parametrize("slug", CORE16_ORDER)
def test_every_text_has_the_same_rules(slug):
    rules = {level: text.partition("\n## The policy\n")[2] for level, text in texts(slug).items()}
    assert len(set(rules.values())) == 1 and "class Policy:" in rules[TextLevel.BLIND]
    horizon = f"At most {core16()[f'core16/{slug}'].horizon} steps."
    assert all(horizon in text for text in texts(slug).values())


@pytest.mark.parametrize("slug", CORE16_ORDER)
def test_the_blind_text_names_nothing(slug):
    blind, full = texts(slug)[TextLevel.BLIND], texts(slug)[TextLevel.FULL]
    names = names_of(core16()[f"core16/{slug}"])
    assert names.found_in(full) and not names.found_in(blind)


def test_agents_are_told_the_same_at_every_level():
    """Apart from the task's own text, and what of the environment's info comes back."""
    facts = {
        render_instructions(RunSettings.make(task="core16/acrobot", text=level), "TASK", SPACE) for level in TextLevel
    }
    (before_feedback,) = {text.partition("## What you get back")[0] for text in facts}
    assert "## Rules" in before_feedback and "## How to submit" in before_feedback


@pytest.mark.parametrize(
    ("rule", "allowed", "forbidden"),
    [("You may use models of the task", True, False), ("no copied transition or reward", False, True)],
)
def test_agents_are_told_whether_they_may_use_own_models(rule, allowed, forbidden):
    for choice, is_told in (("allowed", allowed), ("forbidden", forbidden)):
        settings = RunSettings.make(task="core16/acrobot", own_models=choice)
        assert (rule in render_instructions(settings, "TASK", SPACE)) == is_told


@pytest.mark.parametrize(
    ("slug", "rule", "is_told"),
    [("acrobot", "clipped", False), ("ant", "clipped", True), ("acrobot", "strings", False),
     ("door-key", "strings", True), ("ant", "Integers out of range", False)],
)  # fmt: skip
def test_rules_without_a_meaning_for_the_spaces_are_left_out(slug, rule, is_told):
    assert (rule in texts(slug)[TextLevel.BRIEF]) == is_told


def test_the_documented_numbers_of_tokens_are_true():
    assert token_table() in DOCS.read_text()
    rest = len(render_instructions(RunSettings.make(task="core16/acrobot"), "", SPACE))
    assert "about 1,100 tokens" in DOCS.read_text() and 1000 < rest / CHARACTERS < 1200


OWN = """
env_id = "CartPole-v1"
title = "A pole"
family = "own"
horizon = 500
observation_space = "Box(4,) float32"
action_space = "Discrete(2)"
objective = "Keep the pole up. It is 1 m long."
reward = "On every step:\\n\\n    reward = 1"
termination = "When it falls."
failure_return = {value = 0.0, derivation = "No reward is negative."}
"""


def own_task(more: str = "") -> Task:
    return parse_task(OWN + more, "own")


def test_a_task_file_without_brief_sentences_gets_its_first_ones():
    text = brief_text(own_task())
    assert (text.objective, text.reward) == ("Keep the pole up.", "On every step.")
    own = '[brief]\nobjective = "Up."\nobservation = "A."\naction = "B."\nreward = "C."'
    assert brief_text(own_task(own)).objective == "Up."
