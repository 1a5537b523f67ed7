"""Options become settings by their names: none may be left out without notice."""

from __future__ import annotations

import inspect
from pathlib import Path

import pytest

from evopolicygym.api.run import run
from evopolicygym.api.serve import serve
from evopolicygym.cli import run as run_command
from evopolicygym.cli import serve as serve_command
from evopolicygym.runs.options import AGENT_OPTIONS, RUN_OPTIONS, agent_settings, given_settings
from evopolicygym.runs.settings import AgentSettings


@pytest.mark.parametrize(
    ("function", "others"),
    [
        (run, {"task", "agent", "folder", "progress", "notice"}),
        (serve, {"task", "folder", "notice"}),
        (
            run_command.run,
            {
                "context",
                "task",
                "command",
                "agent",
                "option",
                "agent_host",
                "model_header",
                "folder",
                "resume",
                "anchors",
                "json",
            },
        ),
        (serve_command.serve, {"task", "run", "validate", "json"}),
    ],
    ids=["api", "api serve", "run", "serve"],
)
def test_every_parameter_is_an_option_or_handled_by_the_function_itself(function, others):
    assert set(inspect.signature(function).parameters) - AGENT_OPTIONS.keys() - RUN_OPTIONS == others


def test_every_setting_of_an_agent_has_an_option():
    assert {*AGENT_OPTIONS.values(), "name", "command"} == set(AgentSettings.model_fields)


def test_every_option_of_a_run_is_a_parameter():
    assert set(inspect.signature(run).parameters) >= RUN_OPTIONS | AGENT_OPTIONS.keys()


def test_options_reach_the_settings_with_absolute_paths(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    defaults = {name: parameter.default for name, parameter in inspect.signature(run).parameters.items()}
    options = defaults | {"max_turns": 3, "show": ["data"], "seal_key": "my.key", "budget": 7, "json_lines": True}
    agent = agent_settings("mine.toml", [], options)
    assert (agent.name, agent.turns, agent.shown, agent.json_lines) == (
        str(tmp_path / "mine.toml"), 3, [tmp_path / "data"], True,
    )  # fmt: skip
    given = given_settings(Path("task.toml"), options, agent)
    assert (given["task"], given["seal_key"], given["budget"]) == (str(tmp_path / "task.toml"), tmp_path / "my.key", 7)
    assert given["agent"] is agent and not given.keys() & AGENT_OPTIONS.keys()
