"""Attacks of a hostile agent at every level, as root and as an ordinary user. Without isolation all attacks succeed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest
from agent_testbed import AgentTestbed

from evopolicygym.sandbox.agent.agent_sandbox import AgentLevel, NetworkAccess
from evopolicygym.sandbox.agent.levels import residues

HERE = Path(__file__).parent
AS_USER = HERE.parents[1] / "attacks" / "as_user.py"
HELD_BY_NAMESPACES_ONLY = {"stat_a_file"}
HELD_BY_A_USER_OF_ITS_OWN = {"change_a_mode"}
NEEDS_SIGNAL_SCOPE = {"signal_the_judge"}  # Landlock ABI 6, or a user of its own
NEEDS_PORT_RULES = {"connect_to_another_server", "connect_to_another_address"}  # Landlock ABI 4
NEEDS_ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to be somebody else")


@cache
def as_root(level: str) -> dict[str, bool]:
    name, _, abi = level.partition("@")
    with AgentTestbed() as testbed:
        return testbed.attack(AgentLevel(name), int(abi) if abi else None)


@cache
def as_user(*levels: str) -> dict[str, dict[str, bool]]:
    command = [sys.executable, str(AS_USER), sys.executable, str(HERE / "agent_testbed.py"), *levels]
    done = subprocess.run(command, capture_output=True, text=True, timeout=280)
    assert done.returncode == 0, done.stderr
    return {row["level"]: row["outcomes"] for row in map(json.loads, done.stdout.splitlines())}


def breaches(outcomes: dict[str, bool]) -> set[str]:
    return {name for name, succeeded in outcomes.items() if succeeded}


class TestAsWhoeverWeAre:
    def test_every_attack_works_where_nothing_stops_it(self):
        outcomes = as_root("none")
        assert {name for name, succeeded in outcomes.items() if not succeeded} == set()

    def test_nothing_works_at_level_a(self):
        assert breaches(as_root("A")) == set()

    @NEEDS_ROOT
    def test_only_stat_succeeds_at_level_b(self):
        assert breaches(as_root("B")) == HELD_BY_NAMESPACES_ONLY

    @NEEDS_ROOT
    def test_at_level_b_an_old_kernel_leaves_the_ports_open(self):
        assert breaches(as_root("B@2")) == HELD_BY_NAMESPACES_ONLY | NEEDS_PORT_RULES


@NEEDS_ROOT
class TestAsAnOrdinaryUser:
    LEVELS = ("none", "A", "B", "B@5", "B@2")

    def outcomes(self, level: str) -> dict[str, bool]:
        return as_user(*self.LEVELS)[level]

    def test_every_attack_works_where_nothing_stops_it(self):
        assert {name for name, succeeded in self.outcomes("none").items() if not succeeded} == set()

    def test_nothing_works_at_level_a(self):
        assert breaches(self.outcomes("A")) == set()

    def test_at_level_b_modes_can_be_changed_as_well(self):
        assert breaches(self.outcomes("B")) == HELD_BY_NAMESPACES_ONLY | HELD_BY_A_USER_OF_ITS_OWN

    @pytest.mark.parametrize(("level", "more"), [("B@5", set()), ("B@2", NEEDS_PORT_RULES)])
    def test_at_level_b_old_kernels_leave_more(self, level, more):
        exempt = HELD_BY_NAMESPACES_ONLY | HELD_BY_A_USER_OF_ITS_OWN | NEEDS_SIGNAL_SCOPE
        assert breaches(self.outcomes(level)) == exempt | more


def test_residues_name_what_a_level_does_not_stop():
    text = " ".join(residues(AgentLevel.B, NetworkAccess.ALLOWED, abi=2, own_user=False))
    for word in ("stat", "mode", "signalled", "TCP port"):
        assert word in text
    assert "signalled" not in " ".join(residues(AgentLevel.B, NetworkAccess.ALLOWED, abi=7, own_user=False))
    assert "off-budget" in residues(AgentLevel.A, NetworkAccess.OPEN, abi=7, own_user=True)[0]
