"""Every attack fails at every level of isolation, and an honest policy plays after it. Without isolation every attack
succeeds: this control shows that isolation stops it. `attack_corpus` explains the constants of an attack."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import cache

import pytest
from attack_corpus import HERE, Attack, corpus
from attack_runner import Outcome, Runner

from evopolicygym.errors import IsolationUnavailable
from evopolicygym.sandbox.policy.jail import Level
from evopolicygym.sandbox.policy.protocol import ErrorKind

CORPUS = corpus()
OLD_KERNELS: dict[str, tuple[Level, int]] = {"B with Landlock 1": (Level.B, 1), "B with Landlock 4": (Level.B, 4)}
SLOW = "B with Landlock 4"  # between the oldest and this kernel's, which `make test` plays
PLACES = {"A": (Level.A,), "B": (Level.B,), "none": (Level.NONE,), **OLD_KERNELS}
PUBLIC_LIST = {f"{number:02}" for number in range(1, 65)} - {"12", "13", "55", "58", "63"}  # 12, 13, 63: test_snapshots


def everywhere() -> Iterator[object]:
    yield from (_case(level, attack) for level in ("A", "B") for attack in CORPUS)
    yield from (_case(kernel, attack) for kernel in OLD_KERNELS for attack in CORPUS if attack.meets_the_jail)
    yield from (_case("none", attack) for attack in CORPUS if attack.can_be_shown)


def _case(place: str, attack: Attack) -> object:
    marks = [pytest.mark.slow] if place == SLOW else []
    return pytest.param(place, attack, id=f"{place}-{attack.name}", marks=marks)


@pytest.fixture(scope="session")
def runner_at() -> Iterator[Callable[[str], Runner]]:
    """Return one runner for each place, started for the first attack and kept for all others."""
    with ExitStack() as stack:

        @cache
        def make(place: str) -> Runner | IsolationUnavailable:
            try:
                return stack.enter_context(Runner(*PLACES[place]))
            except IsolationUnavailable as error:
                return error

        def runner_at(place: str) -> Runner:
            made = make(place)
            return made if isinstance(made, Runner) else pytest.skip(str(made))

        yield runner_at


@pytest.mark.parametrize(("place", "attack"), [*everywhere()])
def test_attack(runner_at: Callable[[str], Runner], place: str, attack: Attack) -> None:
    """A control has three tries: on a busy machine noise hides some timing attacks."""
    tries = 3 if place == "none" else 1
    complaints = []
    for _ in range(tries):
        if not (complaint := runner_at(place).run(attack).complaint(attack)):
            return
        complaints.append(complaint)
    pytest.fail("\n".join(complaints))


def test_attacks_that_level_b_does_not_stop(runner_at: Callable[[str], Runner]) -> None:
    """`jail.MEANING` names them. If this fails, level B stops more than it says."""
    (attack,) = [attack for attack in CORPUS if attack.name == "59_stat"]
    assert runner_at("B").run(attack).outcomes == ("breach",)


@pytest.mark.parametrize("attack", [attack for attack in CORPUS if attack.control == ("judge",)], ids=lambda a: a.name)
def test_the_control_finds_the_secret_in_the_judge(runner_at: Callable[[str], Runner], attack: Attack) -> None:
    """No policy process holds the secret; the same search in a judge process finds it."""
    assert runner_at("none").run_in_judge(attack)


@pytest.mark.skipif(os.geteuid() != 0, reason="all of these tests already run as an ordinary user")
@pytest.mark.parametrize("level", ["A", pytest.param("B", marks=pytest.mark.slow)])
def test_attacks_of_an_ordinary_user(level: str) -> None:
    command = [sys.executable, HERE / "as_user.py", sys.executable, HERE / "attack_runner.py", level]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    outcomes = {outcome.attack: outcome for outcome in map(Outcome.from_json, done.stdout.splitlines())}
    complaints = [outcomes[attack.name].complaint(attack) for attack in CORPUS]
    assert "\n\n".join(filter(None, complaints)) == ""


def test_the_corpus_is_complete() -> None:
    assert {attack.name[:2] for attack in CORPUS} >= PUBLIC_LIST
    assert all(attack.why for attack in CORPUS)
    assert {kind for attack in CORPUS for kind in attack.expect} <= {"held", *ErrorKind}
