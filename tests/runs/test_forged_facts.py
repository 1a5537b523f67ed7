"""Records whose facts were forged: verify compares them with config.toml and with the task that is installed."""

from __future__ import annotations

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

    found = failures(verify(forge(SAMPLE, tmp_path / "run", change), 1))
    assert set(found) == {"settings", "replay"}
    assert f"{name} is {value} in the ledger, but" in found["settings"]


def test_a_forged_variant_fails(tmp_path):
    variant = {"name": "shifted", "key": "0" * 64, "shift": "s-0"}

    def change(facts: dict[str, Any], fingerprint: dict[str, Any]) -> None:
        fingerprint["variant"], facts["options"]["variant"] = variant, "shifted"

    found = failures(verify(forge(SAMPLE, tmp_path / "run", change), 1))
    assert "variant is shifted in the ledger, but plain in config.toml" in found["settings"]


def test_facts_that_are_not_those_of_the_task_fail(tmp_path):
    def change(facts: dict[str, Any], fingerprint: dict[str, Any]) -> None:
        facts["task"]["horizon"] = fingerprint["horizon"] = 7
        fingerprint["limits"]["act_s"] = 1e6
        fingerprint["invented"] = 1

    found = failures(verify(forge(SAMPLE, tmp_path / "run", change), 1))
    assert set(found) == {"replay"}
    assert all(f"{name} is " in found["replay"] for name in ("horizon", "limits", "invented"))
    assert "task_version" not in found["replay"]


def test_other_versions_of_packages_are_reported_alone(tmp_path):
    def change(facts: dict[str, Any], fingerprint: dict[str, Any]) -> None:
        fingerprint["packages"]["gymnasium"] = "0.0.1"
        facts["ids"]["bit_id"] = "b-0"

    report = verify(forge(SAMPLE, tmp_path / "run", change), 1)
    assert not failures(report)
    assert "the bit_id differs" in report.findings[-1].detail
