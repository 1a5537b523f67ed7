"""What is on disk, on the wire and in numbers stays as it was, whatever classes and modules are called.

The golden files are in ``data``. A change that is meant writes them anew: ``python tests/golden/write.py``.
"""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from types import ModuleType

import pytest
from golden_facts import FACTS, REPOSITORY
from golden_files import differences, load
from golden_ledger import EVENTS, LEDGER, stored_events, timed_events, write_ledger

from evopolicygym.judge.events import KINDS, Event, kind_of
from evopolicygym.tasks.ids import machine_facts
from evopolicygym.tasks.registry import CORE16_ORDER


def _load_script(path: Path) -> ModuleType:
    """Import a script without its folder: others there have the names of packages."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


EVENT_KINDS = [
    *("opened", "owned", "joined", "refused", "charged", "judged", "refunded", "prompted", "turned", "closed"),
    *("inspected", "validated", "selected", "scored", "repeated", "finished", "suspended"),
]
agreement = _load_script(REPOSITORY / "benchmarks" / "agreement.py")
RETURNS = json.loads(agreement.RECORDED.read_text())["returns"]
CASES = 2
# Sums of seconds are rounded differently from Python 3.12 on; without fused multiplication numpy rounds the bounds of
# intervals differently (AVX-512 makes no difference).
HAS_FMA = {"avx2", "fma"} <= set(machine_facts()["cpu_features"])
ROUNDED = ("*/agent_s", "*/judge_s", *(() if HAS_FMA else ("*interval/low", "*interval/high")))


@pytest.mark.parametrize("name", FACTS)
def test_facts_are_as_they_were(name, tmp_path):
    today = json.loads(json.dumps(FACTS[name](tmp_path)))
    changes = list(differences(load(name), today, ROUNDED))
    assert not changes, "\n".join(changes)


def test_the_kinds_of_events_are_the_known_ones():
    assert list(KINDS) == EVENT_KINDS
    assert list(KINDS.values()) == list(Event.__args__)
    assert {kind_of(event) for event in EVENTS} == set(EVENT_KINDS)


def test_events_are_written_as_they_were(tmp_path):
    assert write_ledger(tmp_path / "ledger.jsonl", timed_events()) == LEDGER.read_bytes()


def test_a_ledger_is_read_as_it_was_and_written_to_the_same_bytes(tmp_path):
    assert stored_events() == timed_events()
    assert write_ledger(tmp_path / "ledger.jsonl", stored_events()) == LEDGER.read_bytes()


@pytest.mark.parametrize("slug", CORE16_ORDER)
def test_returns_are_equal_to_the_bit(slug):
    """Against benchmarks/agreement.json, which two kinds of machines agree on."""
    task = agreement.core16()[f"core16/{slug}"]
    assert agreement.returns(task, 1, agreement.PUBLISHABLE, CASES) == RETURNS[task.id][:CASES]


@pytest.mark.parametrize(
    ("golden", "today"),
    [
        ({"a": 1}, {"a": 1.0}),
        ({"a": 1}, {"b": 1}),
        ([1, 2], [1]),
        (True, 1),
        (0.1, 0.1 + 2**-56),
        (0.0, -0.0),
        ({}, []),
    ],
)
def test_differences_are_found(golden, today):
    assert list(differences(golden, today))
    assert not list(differences(golden, golden))


def test_only_floats_at_named_paths_may_be_close():
    assert not list(differences({"low": 0.1}, {"low": 0.1 + 2**-56}, ("*/low",)))
    assert list(differences({"low": 0.1}, {"low": 0.1001}, ("*/low",)))
    assert list(differences({"high": 0.1}, {"high": 0.1 + 2**-56}, ("*/low",)))
