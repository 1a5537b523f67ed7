"""Records whose facts were forged: verify compares them with config.toml and with the task that is installed."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from evopolicygym.runs.verify import Verification, verify
from forged_runs import forge

SAMPLE = Path(__file__).parents[2] / "examples" / "runs" / "mountain-car-continuous__starter__s0"


def failures(report: Verification) -> dict[str, str]:
    return {finding.what: finding.detail for finding in report.findings if not finding.ok}


@pytest.mark.parametrize(
    ("name", "value"), [("text", "brief"), ("own_models", "forbidden"), ("feedback", "score"), ("feedback", "video")]
)
def test_conditions_that_are_not_those_of_the_settings_fail(tmp_path, name, value):
    def change(facts: dict[str, Any], fingerprint: dict[str, Any]) -> None:
        fingerprint[name] = facts["options"][name] = value

    problems = failures(verify(forge(SAMPLE, tmp_path / "run", change), 1))
    assert set(problems) == {"settings", "replay"}
    assert f"{name} is {value} in the ledger, but" in problems["settings"]


def test_a_forged_variant_fails(tmp_path):
    variant = {"name": "shifted", "key": "0" * 64, "shift": "s-0"}

    def change(facts: dict[str, Any], fingerprint: dict[str, Any]) -> None:
        fingerprint["variant"], facts["options"]["variant"] = variant, "shifted"

    problems = failures(verify(forge(SAMPLE, tmp_path / "run", change), 1))
    assert "variant is shifted in the ledger, but plain in config.toml" in problems["settings"]


def test_facts_that_are_not_those_of_the_task_fail(tmp_path):
    def change(facts: dict[str, Any], fingerprint: dict[str, Any]) -> None:
        facts["task"]["horizon"] = fingerprint["horizon"] = 7
        fingerprint["limits"]["act_s"] = 1e6
        fingerprint["invented"] = 1

    problems = failures(verify(forge(SAMPLE, tmp_path / "run", change), 1))
    assert set(problems) == {"replay"}
    assert all(f"{name} is " in problems["replay"] for name in ("horizon", "limits", "invented"))
    assert "task_version" not in problems["replay"]


def test_other_versions_of_packages_are_reported_alone(tmp_path):
    def change(facts: dict[str, Any], fingerprint: dict[str, Any]) -> None:
        fingerprint["packages"]["gymnasium"] = "0.0.1"
        facts["ids"]["bit_id"] = "b-0"

    report = verify(forge(SAMPLE, tmp_path / "run", change), 1)
    assert not failures(report)
    assert "the bit_id differs" in report.findings[-1].detail


def test_a_run_of_an_agent_that_says_it_was_entered_fails(tmp_path):
    """It would hide the agent's isolation and the episodes that it used."""

    def change(facts: dict[str, Any], fingerprint: dict[str, Any]) -> None:
        facts |= {"entered": True, "agent": None, "agent_isolation": {"level": "absent", "network": "none"}}

    problems = failures(verify(forge(SAMPLE, tmp_path / "run", change), 1))
    assert "its policy was entered, but an agent" in problems["record"]


def test_isolation_of_the_agent_that_is_not_that_of_the_settings_fails(tmp_path):
    """A run that was played without isolation must not pass as one that was isolated."""
    source = tmp_path / "source"
    shutil.copytree(SAMPLE, source)
    config = (source / "config.toml").read_text()
    head, agent = config.split("[agent]")
    agent = agent.replace('isolation = "auto"', 'isolation = "none"').replace('network = "allowed"', 'network = "open"')
    (source / "config.toml").write_text(f"{head}[agent]{agent}")

    def change(facts: dict[str, Any], fingerprint: dict[str, Any]) -> None:
        assert facts["agent_isolation"]["level"] == "A"

    problems = failures(verify(forge(source, tmp_path / "run", change), 1))
    assert "the level of the agent is A in the ledger, but none in config.toml" in problems["settings"]
    assert "the network of the agent is allowed in the ledger, but open in config.toml" in problems["settings"]
    assert not failures(verify(forge(SAMPLE, tmp_path / "control", change), 1))
