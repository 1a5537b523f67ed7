"""A disguise is exactly invertible for any space, its spaces hold what it shows, and keys make different ones."""

from __future__ import annotations

import itertools
import string
from typing import Any

import numpy as np
import pytest
from gymnasium import spaces
from hypothesis import example, given, settings
from hypothesis import strategies as st

from conftest import toy_task
from evopolicygym.errors import UserError
from evopolicygym.tasks import simulator
from evopolicygym.tasks.conditions import REWARD_SCALES, TaskView, TextLevel, Variant
from evopolicygym.tasks.disguise import Disguise
from evopolicygym.tasks.disguise_codes import TOKEN_BYTES
from evopolicygym.tasks.registry import core16, parse_task
from evopolicygym.tasks.spaces import describe, schema_of

FLOATS, INTEGERS = ("float16", "float32", "float64"), ("uint8", "int8", "int32", "uint64", "int64", "bool")
PICTURES = [(40, 33), (36, 40, 3), (3, 34, 34), (5, 6, 3), (7, 7, 3), (33, 32, 1)]
HINTS = ("(6,)", "(7, 7, 3)", "(96, 96", "goal", "image", "(5, 5)", "Discrete(4)")
DISCRETE = spaces.Discrete(3)
keys = st.binary(min_size=32, max_size=32)


@st.composite
def boxes(draw: Any, shapes: Any) -> spaces.Box:
    shape, name = draw(shapes), draw(st.sampled_from(FLOATS + INTEGERS))
    dtype = np.dtype(name)
    if name in FLOATS:
        low = draw(st.sampled_from([-np.inf, -4 * np.pi, -1.0, 0.0]))
        high = draw(st.sampled_from([0.0, 0.07, 1.0, 9 * np.pi, np.inf]))
        return spaces.Box(low, high, shape, dtype.type)
    whole = (0, 1) if name == "bool" else (np.iinfo(dtype).min, np.iinfo(dtype).max)
    low, high = draw(st.sampled_from([whole, (0, 1)]))
    lows, highs = (np.full(shape, bound, dtype) for bound in (low, high))
    return spaces.Box(lows, highs, shape, dtype.type)


pictures = boxes(st.sampled_from(PICTURES))
vectors = boxes(st.lists(st.integers(0, 4), max_size=3).map(tuple))
counts = st.integers(1, 9)
discrete = st.builds(
    lambda n, start: spaces.Discrete(n, start=start), st.sampled_from([1, 2, 9, 10**6]), st.integers(-5, 5)
)
multi_discrete = st.builds(spaces.MultiDiscrete, st.lists(counts, min_size=1, max_size=5))
grid_discrete = st.just(spaces.MultiDiscrete([[2, 3], [4, 9]], start=[[1, 0], [-3, 2]]))
leaves = st.one_of(vectors, discrete, multi_discrete, grid_discrete, st.builds(spaces.MultiBinary, counts))
texts = st.builds(lambda n: spaces.Text(n, charset=string.ascii_letters + " é"), counts)


def nested(children: Any) -> Any:
    """Spaces within dicts and tuples, two levels deep."""

    def holding(inner: Any) -> Any:
        names = st.dictionaries(st.sampled_from(["goal", "image", "a.b", "x1"]), inner, max_size=3).map(spaces.Dict)
        return st.one_of(inner, names, st.lists(inner, max_size=3).map(lambda parts: spaces.Tuple(tuple(parts))))

    return holding(holding(children))


observations, actions = nested(st.one_of(leaves, pictures, texts)), nested(leaves)


def samples(space: Any, count: int = 3) -> list[Any]:
    space.seed(0)
    return [space.sample() for _ in range(count)]


def same(first: Any, other: Any) -> bool:
    """Whether two values have the same structure, types and bits."""
    if isinstance(first, dict):
        return (
            isinstance(other, dict)
            and list(first) == list(other)
            and all(same(first[key], other[key]) for key in first)
        )
    if isinstance(first, tuple):
        return isinstance(other, tuple) and len(first) == len(other) and all(map(same, first, other))
    if isinstance(first, np.ndarray):
        return first.dtype == other.dtype and first.shape == other.shape and first.tobytes() == other.tobytes()
    return bool(first == other)


def space_of(schema: dict[str, Any]) -> Any:
    """Return the Gymnasium space of a schema."""
    match schema["type"]:
        case "Box":
            shape, dtype = tuple(schema["shape"]), np.dtype(schema["dtype"])
            bounds = [np.array(schema[name], dtype) + dtype.type(0) for name in ("low", "high")]  # 0.0 instead of -0.0:
            low, high = (np.broadcast_to(bound, shape) for bound in bounds)  # numpy draws no number from [0.0, -0.0]
            return spaces.Box(low, high, shape, dtype.type)
        case "Discrete":
            return spaces.Discrete(schema["n"], start=schema["start"])
        case "MultiDiscrete":
            return spaces.MultiDiscrete(schema["nvec"], dtype=np.dtype(schema["dtype"]).type, start=schema["start"])
        case "MultiBinary":
            return spaces.MultiBinary(schema["n"])
        case "Text":
            return spaces.Text(schema["max_length"], min_length=0, charset=string.ascii_lowercase + " ")
        case "Tuple":
            return spaces.Tuple(tuple(map(space_of, schema["spaces"])))
    return spaces.Dict({key: space_of(child) for key, child in schema["spaces"].items()})


def fits(space: Any, value: Any) -> bool:
    """Whether a space holds a value. Infinities are numbers of a Box without bounds here, and None is no bool."""
    if isinstance(space, spaces.Dict):
        return list(space.spaces) == sorted(value) and all(fits(child, value[key]) for key, child in space.items())
    if isinstance(space, spaces.Tuple):
        return all(map(fits, space.spaces, value))
    if isinstance(space, spaces.Box):
        assert value.dtype == space.dtype and value.shape == space.shape, (space, value)
        return bool(np.all((space.low <= value) & (value <= space.high)))
    return bool(space.contains(value))


@settings(max_examples=60)
@given(keys, observations)
def test_observations_come_back_to_the_bit(key, space):
    disguise = Disguise(key, schema_of(space), schema_of(DISCRETE))
    shown_space = space_of(disguise.obs_space)
    for native in samples(space):
        shown = disguise.observation(native)
        assert fits(shown_space, shown)
        assert same(shown, disguise.observation(native))
        assert same(disguise.undo_observation(shown), native)


@settings(max_examples=60)
@given(keys, actions)
def test_actions_come_back_to_the_bit_and_every_shown_one_is_valid(key, space):
    disguise = Disguise(key, schema_of(DISCRETE), schema_of(space))
    shown_space = space_of(disguise.action_space)
    for native in samples(space):
        shown = disguise.undo_action(native)
        assert fits(shown_space, shown)
        assert same(disguise.action(shown), native)
    for shown in samples(shown_space):
        assert fits(space, disguise.action(shown))


@given(keys, st.lists(st.floats(-(2.0**120), 2.0**120, width=32), min_size=4, max_size=4))
def test_every_number_comes_back_also_zeros_and_the_smallest(key, numbers):
    native = np.array([*numbers, -0.0, 5e-324, np.inf, -np.inf], np.float32)
    disguise = Disguise(key, schema_of(spaces.Box(-np.inf, np.inf, (8,), np.float32)), schema_of(DISCRETE))
    assert same(disguise.undo_observation(disguise.observation(native)), native)


def repeats(words):
    """Return whether words that are too long for one token have equal parts, which are the same token."""
    long = [data for word in words if len(data := word.encode(errors="surrogatepass")) > TOKEN_BYTES]
    parts = [data[start : start + TOKEN_BYTES] for data in long for start in range(0, len(data), TOKEN_BYTES)]
    return len(set(parts)) < len(parts)


@example(bytes(32), 23 * "0")
@given(keys, st.text(max_size=40))
def test_text_comes_back_and_no_token_repeats(key, text):
    disguise = Disguise(key, schema_of(spaces.Text(40)), schema_of(DISCRETE))
    shown = disguise.observation(text)
    assert disguise.undo_observation(shown) == text
    assert len(shown) <= disguise.obs_space["max_length"]
    words = text.split(" ")
    assert len(set(shown.split(" "))) == len(shown.split(" ")) or max(map(words.count, words)) > 8 or repeats(words)
    assert not set(text) & set("aeiou") & set(shown)


def test_all_tokens_are_equally_long_and_no_length_of_text_is_shown():
    shown = [Disguise(bytes(32), schema_of(spaces.Text(n)), schema_of(DISCRETE)) for n in (14, 53, 160)]
    assert len({disguise.obs_space["max_length"] for disguise in shown}) == 1
    tokens = shown[1].observation("up  the corridor behind_some_obstructions").split(" ")
    assert {len(token) for token in tokens} == {len(tokens[0])}
    missions = ("use the key to open the door and then get to the goal", "reach the goal", "pick up the blue ball", "")
    assert {len(shown[1].observation(mission).split(" ")) for mission in missions} == {len(tokens)}


def test_words_have_places_and_tokens_of_their_own():
    """An agent can see which words of a mission differ between episodes, and nothing of their order and number."""
    places = set()
    for key in range(8):
        disguise = Disguise(bytes([key] * 32), schema_of(spaces.Text(23)), schema_of(DISCRETE))
        blue, red, again = (
            disguise.observation(f"pick up the {word} ball").split(" ") for word in ("blue", "red", "blue")
        )
        assert blue == again
        (differs,) = (index for index, pair in enumerate(zip(blue, red, strict=True)) if len(set(pair)) == 2)
        assert red[differs] in disguise.observation("a red door").split(" ")
        places.add((differs, len(blue)))
    assert len(places) > 4


def core16_disguise(slug: str, key: int) -> Disguise:
    task = core16()[f"core16/{slug}"]
    env = simulator.make(task)
    try:
        return Disguise(bytes([key]) * 32, *simulator.own_schemas(task, env))
    finally:
        env.close()


@pytest.mark.parametrize("slug", ["acrobot", "obstructed-maze", "parking", "car-racing", "roundabout"])
def test_the_shape_of_a_task_is_not_recognised(slug):
    task = core16()[f"core16/{slug}"]
    shown = [core16_disguise(slug, key) for key in range(6)]
    looks = {describe(disguise.obs_space) for disguise in shown}
    assert len(looks) > 2
    for disguise in shown:
        text = describe(disguise.obs_space)
        assert describe(disguise.action_space) != task.action_space
        assert not any(
            hint in text for hint in ("(6,)", "(7, 7, 3)", "(96, 96", "goal", "image", "(5, 5)", "Discrete(4)")
        )


def test_keys_differ():
    space = schema_of(spaces.Box(-1.0, 1.0, (6,), np.float32))
    native = np.arange(6, dtype=np.float32)
    shown = [Disguise(bytes([key]) * 32, space, schema_of(spaces.Discrete(7))) for key in range(20)]
    values = {repr(disguise.observation(native)) for disguise in shown}
    codes = {tuple(disguise.undo_action(action) for action in range(7)) for disguise in shown}
    assert len(values) == len(codes) == 20
    assert len({TaskView(TextLevel.BLIND, Variant.DISGUISED, bytes([key])).reward_scale for key in range(40)}) == len(
        REWARD_SCALES
    )


def test_added_actions_do_what_real_ones_do():
    disguise = Disguise(bytes(32), schema_of(DISCRETE), schema_of(spaces.Discrete(7, start=2)))
    done = [disguise.action(shown) for shown in range(disguise.action_space["n"])]
    assert set(done) == set(range(2, 9))
    assert len(done) > 7


def test_bounds_of_observations_are_powers_of_two():
    space = spaces.Box(np.array([-np.pi, 0.0]), np.array([np.pi, 5.0]), (2,), np.float64)
    disguise = Disguise(bytes(32), schema_of(space), schema_of(DISCRETE))
    bounds = np.ravel(disguise.obs_space["high"])
    assert (np.log2(bounds) == np.rint(np.log2(bounds))).all()
    assert (np.ravel(disguise.obs_space["low"]) == -bounds).all()


def test_the_horizon_is_one_of_three_round_numbers_above():
    views = [TaskView(TextLevel.BLIND, Variant.DISGUISED, bytes([number] * 32)) for number in range(40)]
    shown = {
        horizon: {toy_task(horizon=horizon).seen(view).shown_horizon for view in views}
        for horizon in (1, 50, 999, 1600)
    }
    assert shown == {1: {2, 5, 10}, 50: {100, 200, 500}, 999: {1000, 2000, 5000}, 1600: {2000, 5000, 10000}}
    assert toy_task(horizon=720).shown_horizon == 720


@pytest.mark.parametrize("value", [-500.0, -120.5, -0.05, -1.0, 0.0, 3.7, -1e302])
def test_the_failure_return_is_a_round_number_not_above(value):
    plain = toy_task(failure=value)
    for key in range(20):
        task = plain.seen(TaskView(TextLevel.BLIND, Variant.DISGUISED, bytes([key])))
        shown, exact = task.shown_failure_return, value * task.view.reward_scale
        assert exact - 1.5 * abs(exact) <= shown <= exact
        assert abs(value) > 1e300 or (f"{abs(shown):e}"[0] in "0125" and float(f"{shown:.0e}") == shown)
    assert plain.shown_failure_return == value


def test_a_task_file_can_say_what_an_array_is():
    space = schema_of(spaces.Dict({"board": spaces.Box(0, 9, (6, 5), np.int32)}))
    native = {"board": np.arange(30, dtype=np.int32).reshape(6, 5) % 10}
    for kind in ("grid", "picture", "numbers"):
        disguise = Disguise(bytes(32), space, schema_of(DISCRETE), {"board": kind})
        assert same(disguise.undo_observation(disguise.observation(native)), native)
    picture = Disguise(bytes(32), space, schema_of(DISCRETE), {"board": "picture"})
    assert len(picture.obs_space["shape"]) == 2
    vector = Disguise(bytes(32), space, schema_of(DISCRETE))
    assert all(len(part["shape"]) == 1 for part in vector.obs_space.get("spaces", {"": vector.obs_space}).values())


def test_a_wrong_table_of_a_task_file_is_refused():
    view = TaskView(TextLevel.BLIND, Variant.DISGUISED, bytes(32))
    text = (
        'env_id = "Acrobot-v1"\ntitle = "A"\nfamily = "a"\nhorizon = 500\nobservation_space = ""\naction_space = ""\n'
        'objective = ""\nreward = ""\ntermination = ""\n[failure_return]\nvalue = -500\nderivation = ""\n[disguise]\n'
    )
    with pytest.raises(UserError, match="not valid"):
        parse_task(text + 'observation = "film"', "a")
    for line, message in (
        ('image = "grid"', "has no part 'image'"),
        ('observation = "grid"', "two or three dimensions"),
    ):
        task = parse_task(text + line, "a").seen(view)
        env = simulator.make(task)
        with pytest.raises(UserError, match=message):
            simulator.schemas(task, env)


def test_an_observation_outside_its_space_is_refused_not_wrapped():
    space = schema_of(spaces.Dict({"a": spaces.Discrete(4), "b": spaces.Box(0, 1, (2,), np.float32)}))
    disguise = Disguise(bytes(32), space, schema_of(DISCRETE))
    for code, vector in itertools.product((-1, 4), (np.zeros(2),)):
        with pytest.raises(ValueError, match="codes"):
            disguise.observation({"a": code, "b": vector})
    with pytest.raises(ValueError, match="shape"):
        disguise.observation({"a": 0, "b": np.zeros(3)})
