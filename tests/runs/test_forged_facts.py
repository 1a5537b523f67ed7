"""Records whose facts were forged: verify compares them with config.toml and with the task that is installed."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from evopolicygym.judge.ledger import read
from evopolicygym.judge.state import fold
from evopolicygym.runs import record
from evopolicygym.runs.verify import Verification, verify
from evopolicygym.tasks.ids import comparable_id

SAMPLE = Path(__file__).parents[2] / "examples" / "runs" / "mountain-car-continuous__starter__s0"


def forged(folder: Path, change: Callable[[dict[str, Any], dict[str, Any]], None], source: Path = SAMPLE) -> Path:
    """Copy a run and change its recorded facts and fingerprint; ids, hash chain and run.json are made to agree."""
    shutil.copytree(source, folder)
    for parent, _, names in os.walk(folder):
        for name in (".", *names):
            os.chmod(Path(parent, name), 0o755)
    lines = [json.loads(line) for line in (folder / "ledger.jsonl").read_bytes().splitlines()]
    facts = lines[0]["data"]["facts"]
    change(facts, facts["ids"]["fingerprint"])
    facts["ids"]["comparable_id"] = comparable_id(facts["ids"]["fingerprint"])
    previous, written = "0" * 64, b""
    for line in lines:
        raw = json.dumps(line | {"previous": previous}, separators=(",", ":")).encode()
        previous, written = hashlib.sha256(raw).hexdigest(), written + raw + b"\n"
    (folder / "ledger.jsonl").write_bytes(written)
    derived = record.derive(fold(line for line, _ in read(folder / "ledger.jsonl")), previous)
    (folder / "run.json").write_text(derived.model_dump_json())
    return folder


def failures(report: Verification) -> dict[str, str]:
    return {finding.what: finding.detail for finding in report.findings if not finding.ok}


@pytest.mark.parametrize(
    ("name", "value"), [("text", "brief"), ("own_models", "forbidden"), ("feedback", "score"), ("feedback", "video")]
)
def test_conditions_that_are_not_those_of_the_settings_fail(tmp_path, name, value):
    def change(facts: dict[str, Any], fingerprint: dict[str, Any]) -> None:
        fingerprint[name] = facts["options"][name] = value

    found = failures(verify(forged(tmp_path / "run", change), 1))
    assert set(found) == {"settings", "replay"}
    assert f"{name} is {value} in the ledger, but" in found["settings"]


def test_a_forged_variant_fails(tmp_path):
    variant = {"name": "shifted", "key": "0" * 64, "shift": "s-0"}

    def change(facts: dict[str, Any], fingerprint: dict[str, Any]) -> None:
        fingerprint["variant"], facts["options"]["variant"] = variant, "shifted"

    found = failures(verify(forged(tmp_path / "run", change), 1))
    assert "variant is shifted in the ledger, but plain in config.toml" in found["settings"]


def test_facts_that_are_not_those_of_the_task_fail(tmp_path):
    def change(facts: dict[str, Any], fingerprint: dict[str, Any]) -> None:
        facts["task"]["horizon"] = fingerprint["horizon"] = 7
        fingerprint["limits"]["act_s"] = 1e6
        fingerprint["invented"] = 1

    found = failures(verify(forged(tmp_path / "run", change), 1))
    assert set(found) == {"replay"}
    assert all(f"{name} is " in found["replay"] for name in ("horizon", "limits", "invented"))
    assert "task_version" not in found["replay"]


def test_other_versions_of_packages_are_reported_alone(tmp_path):
    def change(facts: dict[str, Any], fingerprint: dict[str, Any]) -> None:
        fingerprint["packages"]["gymnasium"] = "0.0.1"
        facts["ids"]["bit_id"] = "b-0"

    report = verify(forged(tmp_path / "run", change), 1)
    assert not failures(report)
    assert "the bit_id differs" in report.findings[-1].detail
