"""Every search method learns where there is something to learn, and nothing where the rewards were shuffled."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest

from evopolicygym.agents.builtin.learners.networks import Moments, NetworkShape
from evopolicygym.agents.builtin.learners.search import SearchState, search
from evopolicygym.agents.builtin.learners.search_methods import METHODS, centred_ranks, make_method
from evopolicygym.baselines.rollouts import SimulatorPlayer, spaces_of
from evopolicygym.tasks.registry import find_task
from evopolicygym.tasks.splits import PaperSplits

EXAMINATION = list(range(900, 916))
GENERATIONS = 15


class ShuffledPlayer(SimulatorPlayer):
    """Gives each actor the returns of another one."""

    def play(self, actors, cases):
        played = super().play(actors, cases)
        order = np.random.default_rng(len(played) + cases[0]).permutation(len(played))
        return [replace(one, returns=played[other].returns) for one, other in zip(played, order, strict=True)]


def learn(toy: str, method: str, player_class=SimulatorPlayer, seed=0, hidden=(), jobs=1, generations=GENERATIONS):
    """Return the actors that the search returned, one for each generation."""
    task = find_task(f"learnable_toys:{toy}-v0")
    spaces = spaces_of(task)
    shape = NetworkShape.of(spaces, hidden)
    chosen = make_method(method, shape.parameters, seed, 16)
    with player_class(task, PaperSplits(), jobs) as player:
        guesses = search(chosen, player, shape, SearchState(Moments.of(spaces)))
        return list(itertools.islice(guesses, generations))


def examine(toy: str, actor) -> float:
    """Return the mean return, at most 10, on cases that no search played."""
    with SimulatorPlayer(find_task(f"learnable_toys:{toy}-v0"), PaperSplits(), 1) as player:
        return float(player.play([actor], EXAMINATION)[0].returns.mean())


PAIRS = [(toy, method) for toy in ("Tracking", "Sorting") for method in METHODS]
PAIRS.remove(("Sorting", "random-search"))  # of many draws, some are lucky on the few cases that they play


@pytest.mark.parametrize(("toy", "method"), PAIRS)
def test_it_learns_but_not_from_shuffled_returns(toy, method):
    learned, fooled = (
        examine(toy, learn(toy, method, player_class)[-1]) for player_class in (SimulatorPlayer, ShuffledPlayer)
    )
    assert learned > fooled + 2.0


def test_a_network_with_a_hidden_layer_learns_too():
    actor = learn("Sorting", "ars", hidden=(4,))[-1]
    assert examine("Sorting", actor) > 5.0 and {"w0", "b0", "w1", "b1"} <= set(actor.weights)


@pytest.mark.parametrize("method", METHODS)
def test_same_seed_same_weights(method):
    """At any number of processes."""
    jobs = 2 if method == "openes" else 1
    first, again = (learn("Sorting", method, seed=3, jobs=n, generations=4)[-1].weights for n in (1, jobs))
    other = learn("Sorting", method, seed=4, generations=4)[-1].weights
    assert all(np.array_equal(first[name], again[name]) for name in first)
    assert not np.array_equal(first["w0"], other["w0"])


def test_equal_returns_share_their_rank():
    assert centred_ranks(np.array([3.0, 1.0, 3.0, 2.0, 9.0])).tolist() == [0.125, -0.5, 0.125, -0.25, 0.5]
