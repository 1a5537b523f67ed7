"""The published schema is that of the code. Regenerate: python -m evopolicygym.run_record > docs/schemas/run-1.json"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import evopolicygym
from evopolicygym.errors import UserError
from evopolicygym.record_checks import MOST_CASES
from evopolicygym.run_record import load, schema
from evopolicygym.tasks.ids import comparable_id
from evopolicygym.tasks.splits import SIZES, Split

PUBLISHED = Path(__file__).parents[1] / "docs" / "schemas" / "run-1.json"


def test_the_published_schema_is_that_of_the_code():
    assert json.loads(PUBLISHED.read_text()) == schema()


@pytest.mark.parametrize("text", ["", "{", "[]", '{"schema_version": 2}', '{"schema_version": 1}'])
def test_what_is_no_record_is_named(tmp_path, text):
    (tmp_path / "run.json").write_text(text)
    with pytest.raises(UserError, match=r"run\.json is not a run record"):
        load(tmp_path)


def test_a_missing_record_is_named(tmp_path):
    with pytest.raises(UserError, match="cannot read"):
        load(tmp_path / "nothing")


SAMPLES = Path(__file__).parents[1] / "examples" / "runs"
SAMPLE = SAMPLES / "acrobot__tuner__s0" / "run.json"
Forge = Callable[[dict[str, Any]], None]


def with_cases(facts: dict[str, Any], number: int) -> None:
    """Change the number of held-out cases in every list; the fingerprint stays."""
    facts["options"]["heldout_cases"] = number
    for result in (facts["outcome"]["heldout"], *(made["heldout"] for made in facts["checkpoints"])):
        if result:
            result |= {name: (result[name] * 2)[:number] for name in ("returns", "lengths", "errors")}


def without_score(facts: dict[str, Any], cases: int) -> None:
    """Change a run to one that selected nothing, with so many held-out cases."""
    facts |= {"submissions": [], "checkpoints": [], "turns": []}
    nothing = dict.fromkeys(("submission", "checkpoint", "validation_mean", "heldout", "repeat"))
    facts["outcome"] |= {"kind": "no_ok_submit", **nothing}
    facts["options"]["heldout_cases"] = facts["ids"]["fingerprint"]["heldout_cases"] = cases
    facts["ids"]["comparable_id"] = comparable_id(facts["ids"]["fingerprint"])


def under(facts: dict[str, Any], variant: dict[str, Any] | None = None, **conditions: str) -> None:
    """Change the conditions in options and fingerprint, with the id that follows."""
    fingerprint = facts["ids"]["fingerprint"]
    facts["options"] |= conditions | ({"variant": variant["name"]} if variant else {})
    fingerprint |= conditions | ({"variant": variant} if variant else {})
    facts["ids"]["comparable_id"] = comparable_id(fingerprint)


def generated(facts: dict[str, Any], task: str, low: float, high: float) -> None:
    """Change the task to a generated one with this scale, or give its scale to another task."""
    fingerprint = facts["ids"]["fingerprint"]
    facts["task"] |= {"id": task, "scale": {"low": low, "high": high, "draws": 1}}
    fingerprint |= {"task": task, "world": "0" * 64, "env_options": {"draw": 0, "low": low, "high": high}}
    facts["ids"]["comparable_id"] = comparable_id(fingerprint)


def with_packages(facts: dict[str, Any], packages: Any) -> None:
    """Change the versions of packages in the fingerprint, with the id that follows."""
    facts["ids"]["fingerprint"]["packages"] = packages
    facts["ids"]["comparable_id"] = comparable_id(facts["ids"]["fingerprint"])


def as_entered(facts: dict[str, Any]) -> None:
    """Change the run of an agent to a policy that was made elsewhere; its submissions stay."""
    facts |= {"entered": True, "agent": None, "turns": []}
    facts["isolation"]["agent"] = "absent"
    facts["times"]["closed_because"] = "policy_entered"


HASHES = {"key": "0" * 64, "disguise": "d-0", "shift": "s-0"}
FORGED: dict[str, Forge] = {
    "disguised, but its text is full": lambda facts: under(facts, {"name": "disguised", **HASHES}, text="full"),
    "blind, but its feedback is video": lambda facts: under(facts, text="blind", feedback="video"),
    "no key of it": lambda facts: under(facts, {"name": "shifted", "shift": "s-0"}),
    "no shift of it": lambda facts: under(facts, {"name": "shifted", "key": "0" * 64}),
    "no disguise of it": lambda facts: under(facts, {"name": "disguised", "key": "0" * 64}, text="blind"),
    "cannot be computed with: 2.0 to 2.0": lambda facts: generated(facts, "novel/control-1", 2.0, 2.0),
    "cannot be computed with: 0.0 to 5e-324": lambda facts: generated(facts, "novel/control-1", 0.0, 5e-324),
    "cannot be computed with: -1e.308 to 1e.308": lambda facts: generated(facts, "novel/control-1", -1e308, 1e308),
    "and its scale go together": lambda facts: generated(facts, "core16/acrobot", -500.0, -400.0),
    "packages in its fingerprint are no table": lambda facts: with_packages(facts, "gymnasium"),
    "hosts in the settings of its agent": lambda facts: facts["agent"]["settings"].update(hosts=1),
    "shown in the settings of its agent": lambda facts: facts["agent"]["settings"].update(shown={"a": 1}),
    "heldout_cases is not the number": lambda facts: with_cases(facts, 31),
    "heldout_cases is 0": lambda facts: without_score(facts, 0),
    "heldout_cases is 100000": lambda facts: without_score(facts, 100_000),
    "validation_cases is not the number": lambda facts: facts["options"].update(validation_cases=15),
    "comparable_id is not": lambda facts: facts["ids"]["fingerprint"].update(heldout_cases=31),
    "is no score, but names one": lambda facts: facts["outcome"].update(kind="no_ok_submit"),
    "lacks a part": lambda facts: facts["outcome"].update(heldout=None),
    "submission or a checkpoint that is not": lambda facts: facts["outcome"].update(submission=1),
    "without isolation": lambda facts: facts["isolation"].update(agent="none"),
    "none of the known levels": lambda facts: facts["isolation"].update(policy="A+"),
    "its isolation says otherwise": lambda facts: facts.update(entered=True),
    "had an agent to isolate": lambda facts: facts["isolation"].update(agent="absent"),
    "train episodes or further submissions": lambda facts: as_entered(facts),
    "or the reverse": lambda facts: facts["times"].update(closed_because="policy_entered"),
    "charged more than its budget": lambda facts: facts["budget"].update(charged=0, remaining=128),
    "what is left": lambda facts: facts["budget"].update(remaining=128),
    "mean or a standard": lambda facts: facts["outcome"]["heldout"].update(mean=1e9),
    "a standard deviation": lambda facts: facts["submissions"][0]["train"].update(std=1.0),
    "validation_mean is not": lambda facts: facts["outcome"].update(validation_mean=0.0),
    "held-out result of its outcome is not": lambda facts: facts["outcome"]["heldout"]["lengths"].reverse(),
    "one return, length and error": lambda facts: facts["outcome"]["heldout"]["lengths"].pop(),
    "failure_return is not": lambda facts: facts["task"].update(failure_return=1e9),
}


BEYOND: dict[str, Forge] = {
    "times.opened: .*the year 1 ": lambda facts: facts["times"].update(opened="0001-01-01T00:00:00+14:00"),
    "submissions.0.judged_at: .*the year 9999 ": lambda facts: facts["submissions"][0].update(
        judged_at="9999-12-31T23:59:59-12:00"
    ),
    "turns.0.wall_s": lambda facts: facts["turns"][0].update(wall_s=1e308),
    "times.train_s": lambda facts: facts["times"].update(train_s=-1e308),
}


@pytest.mark.parametrize("problem", BEYOND)
def test_times_that_no_reader_can_compute_with_are_refused(tmp_path, problem):
    """The first year cannot be converted to another time zone, and the sum of two such durations is no number."""
    facts = json.loads(SAMPLE.read_text())
    BEYOND[problem](facts)
    (tmp_path / "run.json").write_text(json.dumps(facts))
    with pytest.raises(UserError, match=f"is not a run record of version 1: {problem}"):
        load(tmp_path)
    facts = json.loads(SAMPLE.read_text())
    facts["times"] |= {"opened": "0002-01-01T00:00:00+14:00", "train_s": 1e12}
    (tmp_path / "run.json").write_text(json.dumps(facts))
    assert load(tmp_path).times.train_s == 1e12, "control"


@pytest.mark.parametrize("problem", FORGED)
def test_a_record_that_contradicts_itself_is_refused(tmp_path, problem):
    facts = json.loads(SAMPLE.read_text())
    FORGED[problem](facts)
    (tmp_path / "run.json").write_text(json.dumps(facts))
    with pytest.raises(UserError, match=f"contradicts itself: .*{problem}"):
        load(tmp_path)


def test_every_sample_agrees_with_itself():
    samples = [load(path) for path in SAMPLES.iterdir() if path.is_dir()]
    assert len(samples) == 12


def test_a_record_may_hold_as_many_cases_as_the_splits():
    assert {"validation_cases": SIZES[Split.VALIDATION], "heldout_cases": SIZES[Split.HELDOUT]} == MOST_CASES


def test_forged_records_are_named_and_left_out_of_a_collection(tmp_path):
    """Each of them once ended the leaderboard, the comparison and the report of all other runs."""
    for name in ("acrobot__tuner__s0", "acrobot__climber__s0"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "run.json").write_bytes((SAMPLES / name / "run.json").read_bytes())
    for number, forge in enumerate(FORGED.values()):
        facts = json.loads(SAMPLE.read_text())
        forge(facts)
        (tmp_path / str(number)).mkdir()
        (tmp_path / str(number) / "run.json").write_text(json.dumps(facts))
    with pytest.warns(UserWarning, match="contradicts itself"):
        runs = evopolicygym.load_runs(tmp_path)
    assert len(runs) == 2
    assert {Path(skip.path).name for skip in runs.skipped} == set(map(str, range(len(FORGED))))
    (table,) = evopolicygym.leaderboard(runs).boards[0].tasks
    assert len(table.rows) == 3  # the two, and the random policy
    assert len(evopolicygym.compare(runs).pairs) == 1


@pytest.mark.parametrize("name", ["dollars", "input_tokens"])
def test_amounts_that_cannot_be_added_up_are_refused(tmp_path, name):
    """Two such records once ended the tables of a whole collection: their sum is no number."""
    facts = json.loads(SAMPLE.read_text())
    for number, amount in enumerate((1e15, 1e308)):
        facts["usage"] |= {name: amount}
        (tmp_path / f"{number}.json").write_text(json.dumps(facts))
    assert load(tmp_path / "0.json").usage is not None  # control
    with pytest.raises(UserError, match="usage: Value error, a number beyond all bounds"):
        load(tmp_path / "1.json")


def test_tables_without_declared_keys_have_a_bounded_number_of_values(tmp_path):
    """64 MiB of empty lists took more than 2 GiB."""
    facts = json.loads(SAMPLE.read_text())
    for number, values in enumerate((1_000, 100_000)):
        facts["ids"]["machine"] = {"lists": [[]] * values}
        (tmp_path / f"{number}.json").write_text(json.dumps(facts))
    assert load(tmp_path / "0.json").ids.machine  # control
    with pytest.raises(UserError, match="machine: Value error, more than 100000 values"):
        load(tmp_path / "1.json")
    (tmp_path / "2.json").write_bytes(b'{"lists":[' + b"[]," * 2_000_000 + b"[]]}")
    with pytest.raises(UserError, match="more than 2,000,000 lists and tables"):
        load(tmp_path / "2.json")
