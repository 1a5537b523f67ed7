"""Suite files: valid ones, invalid ones, and that the resolved file is the same suite."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from evopolicygym.errors import UserError
from evopolicygym.suites.file import Suite, plan

SHIPPED = sorted((Path(__file__).parents[2] / "suites").glob("*.toml"))
SMALL = """
tasks = ["core16/acrobot"]
repeats = 2
seed = 5
[limits]
hours = 3
tokens = 1000
[agents.tuner]
[agents.mine]
name = "codex"
model = "some-model"
hours = 1
"""


def suite(tmp_path, text=SMALL, *overrides):
    path = tmp_path / "small.toml"
    path.write_text(text)
    return Suite.read(path, overrides)


def test_a_plan_is_tasks_times_agents_times_repeats(tmp_path):
    planned = plan(suite(tmp_path))
    assert [run.name for run in planned] == [
        "core16-acrobot__tuner__s5",
        "core16-acrobot__mine__s5",
        "core16-acrobot__tuner__s6",
        "core16-acrobot__mine__s6",
    ]
    agent = planned[3].settings.agent
    assert (agent.name, agent.model, agent.seed, agent.hours, agent.tokens) == ("codex", "some-model", 6, 1, 1000)
    assert planned[0].settings.agent.hours == 3


def test_a_collection_stands_for_its_tasks(tmp_path):
    resolved = suite(tmp_path, 'tasks = "core16"\n[agents.tuner]')
    assert len(resolved.tasks) == 16 and "core16/ant" in resolved.tasks


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.name)
def test_shipped_suites_can_be_planned(path):
    assert plan(Suite.read(path))


def test_the_papers_protocol():
    settings = plan(Suite.read(next(path for path in SHIPPED if path.name == "core16-128.toml")))[0].settings
    assert (settings.budget, settings.validation_cases, settings.heldout_cases, settings.seeds) == (
        128,
        16,
        32,
        "paper",
    )
    assert (settings.text, settings.variant) == ("brief", "plain")


VARIANTS = 'tasks = ["core16/acrobot"]\nvariants = ["plain", "disguised"]\n[agents.tuner]\n'


def test_variants_are_an_axis_of_a_suite(tmp_path):
    """A disguised run has the blind text, and a name that tells neither its task nor its variant."""
    planned = plan(suite(tmp_path, VARIANTS))
    assert [(run.settings.variant, run.settings.text) for run in planned] == [
        ("plain", "brief"), ("disguised", "blind"),
    ]  # fmt: skip
    assert planned[0].name == "core16-acrobot__tuner__s0"
    assert re.fullmatch("blind-[0-9a-f]{8}__tuner__s0", planned[1].name)
    (tmp_path / "again").mkdir()
    again = plan(suite(tmp_path / "again", suite(tmp_path, VARIANTS).toml()))
    assert [(run.name, run.settings) for run in again] == [(run.name, run.settings) for run in planned]


@pytest.mark.parametrize(
    ("more", "said"),
    [("defaults.variant=plain", "cannot both be given"), ("defaults.text=full", "has no text full"),
     ("variants=[]", "variants is empty"),
     ("variants=['plain', 'plain']", "one of them twice"),
     ("variants=['hidden']", "'plain', 'disguised' or 'shifted'"),
     ("defaults.text=long", "'brief', 'full' or 'blind'")],
)  # fmt: skip
def test_conditions_that_make_no_sense_are_refused(tmp_path, more, said):
    with pytest.raises(UserError, match=said):
        plan(suite(tmp_path, VARIANTS, more))


def test_the_resolved_file_is_the_same_suite(tmp_path):
    first = suite(tmp_path)
    again = tmp_path / "again"
    again.mkdir()
    resolved = suite(again, first.toml())
    assert [run.settings for run in plan(resolved)] == [run.settings for run in plan(first)]
    assert resolved.toml() == first.toml()
    assert "heldout_cases = 32" in first.toml()


def test_a_limit_on_candidates(tmp_path):
    limited, free = (suite(tmp_path, SMALL, *more) for more in (["defaults.max_candidates=3"], []))
    assert [plan(suite_file)[0].settings.max_candidates for suite_file in (limited, free)] == [3, None]
    (tmp_path / "resolved.toml").write_text(limited.toml())
    assert plan(Suite.read(tmp_path / "resolved.toml"))[0].settings.max_candidates == 3


def test_overrides(tmp_path):
    resolved = suite(
        tmp_path, SMALL, "agents.mine.model=other", "repeats=3", "splits.seeds=paper", "agents.new.name=nop"
    )
    assert resolved.repeats == 3 and resolved.agents["mine"].model == "other" and "new" in resolved.agents
    assert plan(resolved)[0].settings.seeds == "paper"


def test_overrides_of_a_name_with_dots(tmp_path):
    resolved = suite(tmp_path, SMALL + "[agents.'gpt-5.5']\nname = 'codex'", 'agents."gpt-5.5".model=other')
    assert resolved.agents["gpt-5.5"].model == "other"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("tsks = 'core16'\n[agents.tuner]", "tsks: there is no such key; did you mean tasks?"),
        (
            "tasks = 'core16'\n[agents.codex]\nmodl = 'x'",
            "agents.codex.modl: there is no such key; did you mean model",
        ),
        (
            "tasks = 'core16'\n[splits]\nseed = 'paper'\n[agents.tuner]",
            "splits.seed: there is no such key; did you",
        ),
        (
            "tasks = 'x'\n[cap]\ndollar = 3\n[agents.tuner]",
            "cap.dollar: there is no such key; did you mean dollars",
        ),
        ("tasks = 'core16'", "agents: Field required"),
        ("tasks = 3\n[agents.tuner]", "tasks: Input should be a valid list"),
        ("tasks = 'core16'\nrepeats = 0\n[agents.tuner]", "repeats: Input should be greater than or equal to 1"),
        ("tasks = 'core16'\n[agents.'a/b']\nname = 'nop'", "agents.a/b"),
        ("tasks = 'core16'\n[agents.'[/red]']\nname = 'nop'", "agents.[/red]"),
        (f"tasks = 'core16'\n[agents.{'a' * 300}]\nname = 'nop'", "at most 80 characters"),
        ("tasks = [", "is not TOML"),
    ],
)
def test_mistakes_in_a_suite_file_are_named(tmp_path, text, said):
    with pytest.raises(UserError) as error:
        suite(tmp_path, text)
    assert said in str(error.value) and "evopolicygym docs suites" in str(error.value)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("tasks = ['core16/acrobat']\n[agents.tuner]", "core16/acrobot"),
        ("tasks = 'core16'\n[splits]\nheldout_cases = 1000\n[agents.tuner]", "heldout_cases"),
        ("tasks = 'core16'\n[splits]\nseeds = 'papers'\n[agents.tuner]", "seeds"),
        ("tasks = 'core16'\n[limits]\nhours = -1\n[agents.tuner]", "hours"),
        ("tasks = 'core16'\n[agents.tuner]\nseed = 1", "agents.tuner.seed"),
        ("tasks = ['core16/acrobot', 'Acrobot-v1']\n[agents.tuner]", "would be the same run"),
        ('tasks = ["CartPole-v1"]\nvariants = ["shifted"]\n[agents.tuner]\n', "CartPole-v1 has no shifted variant"),
    ],
)
def test_plans_that_cannot_be_run_are_refused(tmp_path, text, said):
    with pytest.raises(UserError, match=said):
        plan(suite(tmp_path, text))


@pytest.mark.parametrize("override", ["repeats", "=3", "tasks.x=3", "agents..model=3", "a b=3", "\n=3"])
def test_an_override_without_a_value(tmp_path, override):
    with pytest.raises(UserError):
        suite(tmp_path, SMALL, override)
