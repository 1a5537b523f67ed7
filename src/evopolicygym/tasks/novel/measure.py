"""Measures a drawn world: what its expert, trivial policies and a plain search score on hidden cases."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

import numpy as np

from evopolicygym.tasks.novel.world import Act, World, brightness
from evopolicygym.tasks.spaces import constant_actions, schema_of

CASES: Final = 16
SEARCH_CASES: Final = 4
SEARCH_CANDIDATES: Final = 32  # with SEARCH_CASES each: the budget of a run
SCREEN_CASES: Final = 4  # that every constant action is played on; the best few are played on all
SCREENED: Final = 4
# What "clearly beats" means, for all families: the expert's lead over the best trivial policy on the same cases.
LEAST_ERRORS: Final = 4.0  # lead, in its standard errors
LEAST_SPREADS: Final = 3.0  # lead, in standard deviations of what all trivial policies score
MOST_SEARCHED: Final = 0.5  # share of the lead that a search may reach
PICTURE: Final = 8  # side of the picture that a search sees, after averaging
CODE_SPREAD: Final = 0.6180339887498949  # the golden ratio: multiples of it, modulo 1, lie far apart

Player = Callable[[Any], Act]  # called with an environment that was just reset


@dataclass(frozen=True)
class WorldMeasure:
    """Returns on the same hidden cases, by policy. ``spread`` is the standard deviation of what all trivial policies
    score, over policies and cases. ``search`` is the best linear policy of a run's budget; it is empty where the world
    is refused without it."""

    expert: list[float]
    trivial: dict[str, list[float]]
    spread: float
    search: list[float] = field(default_factory=list)

    @property
    def low(self) -> float:
        return max(_mean(returns) for returns in self.trivial.values())

    @property
    def high(self) -> float:
        return _mean(self.expert)

    @property
    def lead_error(self) -> float:
        """The standard error of the expert's lead over the best trivial policy."""
        best = max(self.trivial.values(), key=_mean)
        differences = [mine - theirs for mine, theirs in zip(self.expert, best, strict=True)]
        return float(np.std(differences, ddof=1)) / math.sqrt(len(differences))

    def means(self) -> dict[str, Any]:
        """Return what ``margin_problem`` takes."""
        ends = {"trivial": self.low, "search": _mean(self.search) if self.search else None, "expert": self.high}
        return {**ends, "error": self.lead_error, "spread": self.spread}

    def objection(self) -> str | None:
        """Return why this world is not worth playing; None if it is."""
        problem = margin_problem(**self.means())
        if (
            problem is None
            and len({value for returns in (*self.trivial.values(), self.search) for value in returns}) < 2
        ):
            return "rewards are flat"
        return problem


def margin_problem(trivial: float, search: float | None, expert: float, error: float, spread: float) -> str | None:
    """Return what the expert's lead lacks, given the means of three policies, the standard error of the lead, and the
    spread of trivial policies; None if nothing. A search that was not made is not looked at."""
    lead = expert - trivial
    if not lead > max(0.0, LEAST_ERRORS * error):
        return "the lead of the expert is not certain"
    if lead < LEAST_SPREADS * spread:
        return "the lead of the expert is small"
    if search is not None and search > trivial + MOST_SEARCHED * lead:
        return "a search comes close to the expert"
    return None


def measure_world(world: World, seeds: Iterable[int], search_seeds: Iterable[int]) -> WorldMeasure:
    """Measure a world. ``search_seeds`` are the cases that the search may use; ``seeds`` are hidden from it. Nothing is
    searched for where the lead of the expert is too small."""
    hidden, given = list(seeds), list(search_seeds)
    schema = schema_of(world.make().action_space)
    trivial, spread = _trivial_returns(world, schema, hidden)
    measured = WorldMeasure(expert_returns(world, hidden), trivial, spread)
    if margin_problem(**measured.means()):
        return measured
    searched = linear_player(search_linear(world, given), schema)
    return replace(measured, search=returns(world, searched, hidden))


def _trivial_returns(world: World, schema: dict[str, Any], hidden: list[int]) -> tuple[dict[str, list[float]], float]:
    """Return what random actions and the best few constant ones score, and the spread of all of them."""
    constants = [np.asarray(action) if schema["type"] == "Box" else action for action in constant_actions(schema)]
    players = {f"constant {number}": _constant(action) for number, action in enumerate(constants)}
    first, others = hidden[:SCREEN_CASES], hidden[SCREEN_CASES:]
    screened = {name: returns(world, player, first, observes=False) for name, player in players.items()}
    best = sorted(screened, key=lambda name: _mean(screened[name]))[-SCREENED:]
    trivial = {"random": returns(world, _random, hidden, observes=False)}
    spread = float(np.std([*screened.values(), trivial["random"][:SCREEN_CASES]]))
    for name in best:
        trivial[name] = screened[name] + returns(world, players[name], others, observes=False)
    return trivial, spread


def returns(world: World, player: Player, seeds: Iterable[int], observes: bool = True) -> list[float]:
    """Return the return of one episode per seed. A player that ignores observations need not have them made."""
    env = world.make()
    env.observes, env.grey = observes, True
    return [_episode(env, world.horizon, player, seed) for seed in seeds]


def expert_returns(world: World, seeds: list[int]) -> list[float]:
    """Return the return of the expert for each seed. Where it can, it plays all episodes side by side."""
    experts = getattr(world, "experts", None)
    if experts is None:
        return returns(world, world.expert, seeds, observes=False)
    envs = [world.make() for _ in seeds]
    for env, seed in zip(envs, seeds, strict=True):
        env.observes = False
        env.reset(seed=seed)
    act, totals = experts(envs), [0.0] * len(envs)
    for _ in range(world.horizon):
        for number, (env, action) in enumerate(zip(envs, act(), strict=True)):
            totals[number] += float(env.step(action)[1])
    return totals


def _episode(env: Any, horizon: int, player: Player, seed: int) -> float:
    observation, _ = env.reset(seed=seed)
    act, total = player(env), 0.0
    for _ in range(horizon):
        observation, reward, terminated, truncated, _ = env.step(act(observation))
        total += float(reward)
        if terminated or truncated:
            break
    return total


def _random(env: Any) -> Act:
    env.action_space.seed(int(env.np_random.integers(2**31)))
    return lambda _: env.action_space.sample()


def _constant(action: Any) -> Player:
    return lambda _: lambda __: action


def search_linear(world: World, given: list[int]) -> np.ndarray[Any, Any]:
    """Search at random among linear policies, then around the best; return its weights."""
    generator, env = np.random.default_rng(0), world.make()
    observation, _ = env.reset(seed=given[0])
    schema = schema_of(env.action_space)
    outputs = schema["n"] if schema["type"] == "Discrete" else math.prod(schema["shape"])
    shape = (outputs, features(observation).size + 1)
    best, best_score = np.zeros(shape), -math.inf
    for number in range(SEARCH_CANDIDATES):
        around, width = (best, 0.3) if number >= SEARCH_CANDIDATES // 2 else (np.zeros(shape), 1.0)
        weights = around + width * generator.standard_normal(shape)
        score = _mean(returns(world, linear_player(weights, schema), given[:SEARCH_CASES]))
        if score > best_score:
            best, best_score = weights, score
    return best


def linear_player(weights: np.ndarray[Any, Any], schema: Mapping[str, Any]) -> Player:
    """Return a policy whose action is a linear function of the features of its observation."""
    inputs = np.ones(weights.shape[1])  # the last one stays

    def choice(observation: Any) -> Any:
        inputs[:-1] = features(observation)
        return int((weights @ inputs).argmax()) + schema["start"]

    def numbers(observation: Any) -> Any:
        inputs[:-1] = features(observation)
        shaped = (weights @ inputs).reshape(schema["shape"])
        return np.minimum(np.maximum(shaped, low), high).astype(schema["dtype"])

    if schema["type"] == "Discrete":
        return lambda _: choice
    low, high = np.array(schema["low"]), np.array(schema["high"])
    return lambda _: numbers


def features(observation: Any) -> np.ndarray[Any, Any]:
    """Return an observation as one vector of moderate numbers; pictures as small grey ones. Integers are codes, whose
    size means nothing: each becomes a number of its own."""
    if isinstance(observation, Mapping):
        return np.concatenate([features(observation[key]) for key in sorted(observation)])
    if isinstance(observation, str):
        return np.zeros(0)
    array = np.asarray(observation)
    if array.ndim == 3 and min(array.shape[:2]) > PICTURE:
        array = _small(brightness(array))
    elif array.ndim == 2 and array.dtype == np.float64 and min(array.shape) > PICTURE:
        array = _small(array)
    elif array.dtype.kind in "iu" and array.ndim < 3:
        array = 2.0 * (array * CODE_SPREAD % 1.0) - 1.0
    vector: np.ndarray[Any, Any] = np.tanh(array.reshape(-1), dtype=np.float64)
    return vector


def _small(grey: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return the mean brightness of the parts of a picture. Pixels of a row are added in pairs, and then the pairs: so
    does numpy where a part has 8 pixels, but for each part apart."""
    rows, columns = (size // PICTURE for size in grey.shape)
    sums = grey[: rows * PICTURE, : columns * PICTURE]
    while sums.shape[1] % (2 * PICTURE) == 0:
        sums = sums[:, ::2] + sums[:, 1::2]
    return np.asarray(sums.reshape(PICTURE, rows, PICTURE, -1).sum(axis=(1, 3)) / (rows * columns))


def _mean(values: list[float]) -> float:
    return math.fsum(values) / len(values)
