"""Finding tasks by name, and the error messages for names that have no task."""

from __future__ import annotations

import ctypes
import os

import gymnasium
import mujoco
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.envs.mujoco.inverted_pendulum_v5 import InvertedPendulumEnv

from conftest import TESTS
from evopolicygym.errors import UserError
from evopolicygym.tasks import simulator
from evopolicygym.tasks.conditions import TaskView, TextLevel
from evopolicygym.tasks.contract import render
from evopolicygym.tasks.registry import COLLECTIONS, CORE16_ORDER, core16, find_task, parse_task
from evopolicygym.tasks.task import Task
from toys import Toy

HORIZONS = dict(
    zip(CORE16_ORDER, (500, 999, 1600, 1000, 50, 1000, 1000, 100, 1000, 480, 100, 720, 500, 11, 50, 50), strict=True)
)


def test_core16_is_the_papers_sixteen():
    assert [task.horizon for task in core16().values()] == list(HORIZONS.values())
    assert [task.demand for task in core16().values()].count("synthesis") == 5
    families = [task.family for task in core16().values()]
    assert families == [name for name in ("gym_box2d", "mujoco", "minigrid", "robotics_driving") for _ in range(4)]


@pytest.mark.parametrize("slug", CORE16_ORDER)
def test_a_contract_names_every_observation_and_action(slug):
    task = core16()[f"core16/{slug}"].seen(TaskView(TextLevel.FULL))
    env = simulator.make(task)
    observation, action = simulator.schemas(task, env)
    env.close()
    text = render(task, observation, action)
    for row in (*task.observation, *task.action):
        assert all(name in text for name in row.all_names())
    for heading in ("Objective", "Observation", "Action", "Reward", "Start", "End of an episode", "Horizon"):
        assert f"\n## {heading}\n" in text
    assert f"{task.failure_return.value:g}" in text
    assert "class Policy:" in text


def test_a_gymnasium_id_of_core16_is_the_core16_task():
    assert find_task("Acrobot-v1") is core16()["core16/acrobot"]


@pytest.mark.parametrize(
    ("name", "slug"),
    [("gymnasium:Acrobot-v1", "acrobot"), ("minigrid:MiniGrid-FourRooms-v0", "four-rooms"),
     ("gymnasium_robotics:FetchPush-v4", "fetch-push")],
)  # fmt: skip
def test_the_module_that_registers_an_id_of_core16_may_be_named(name, slug):
    assert find_task(name) is core16()[f"core16/{slug}"]


def test_any_other_gymnasium_id_is_a_task():
    task = find_task("CartPole-v1")
    assert (task.horizon, task.observation_space, task.action_space) == (500, "Box(4,) float32", "Discrete(2)")
    env = simulator.make(task)
    assert "high [4.8, inf, 0.41887903, inf]" in render(task, *simulator.schemas(task, env))
    full = task.seen(TaskView(TextLevel.FULL))
    assert '"high"' in render(full, *simulator.schemas(full, env))


def test_an_environment_of_ones_own_module_is_a_task():
    assert find_task("toys:Toy-v0").horizon == 1000


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("core16/acrobat", "core16/acrobot"),
        ("acrobot", "core16/acrobot"),
        ("Acrobot", "Did you mean core16/acrobot?"),
        ("car-racing", "core16/car-racing"),
        ("Akrobot-v1", "Acrobot-v1"),
        ("CartPole-v17", "CartPole-v1"),
    ],
)
def test_an_unknown_task_names_the_nearest(name, meant):
    with pytest.raises(UserError, match="there is no task") as caught:
        find_task(name)
    assert meant in caught.value.remedy


@pytest.mark.parametrize("name", ["no_such_module:Env-v0", "broken_toy:Env-v0", "a:b:c"])
def test_a_module_that_does_not_import_is_named(name):
    with pytest.raises(UserError, match=r"cannot be made|there is no task"):
        find_task(name)


def test_a_module_that_is_missing_is_named_with_the_command_that_installs_it(monkeypatch):
    def needs_jax(**options):
        raise ModuleNotFoundError("No module named 'jax'", name="jax.numpy")

    monkeypatch.setitem(gymnasium.registry, "Jax-v0", gymnasium.envs.registration.EnvSpec("Jax-v0", needs_jax))
    with pytest.raises(UserError, match="No module named 'jax'") as caught:
        find_task("Jax-v0")
    assert caught.value.remedy == "pip install jax"


def task_of(environment: type, monkeypatch, **options) -> Task:
    spec = gymnasium.envs.registration.EnvSpec("Own-v0", environment, **options)
    monkeypatch.setitem(gymnasium.registry, "Own-v0", spec)
    return find_task("Own-v0")


class Derived(InvertedPendulumEnv):
    pass


class Holding(Toy):
    """MuJoCo without Gymnasium's base of it."""

    def __init__(self) -> None:
        self.model = mujoco.MjModel.from_xml_string("<mujoco/>")


@pytest.mark.parametrize("environment", [Derived, Holding])
def test_an_environment_that_uses_mujoco_says_so(monkeypatch, environment):
    assert task_of(environment, monkeypatch).requires == (__name__.partition(".")[0], "mujoco")


def test_robotics_outside_core16_use_mujoco():
    assert find_task("FetchReach-v4").requires == ("gymnasium_robotics", "mujoco")


class Method(Toy):
    def max_steps(self) -> int:
        return 5


class Numbered(Toy):
    max_steps = np.int64(7)


class Yes(Toy):
    max_steps = True


@pytest.mark.parametrize(
    ("environment", "options", "horizon"),
    [(Method, {}, 1000), (Yes, {}, 1000), (Numbered, {}, 7), (Numbered, {"max_episode_steps": 3}, 3)],
)
def test_only_a_number_of_steps_is_a_horizon(monkeypatch, environment, options, horizon):
    assert task_of(environment, monkeypatch, **options).horizon == horizon


class Speaking(Toy):
    action_space = spaces.Tuple((spaces.Discrete(2), spaces.Text(5)))


class Listing(Toy):
    observation_space = spaces.Sequence(spaces.Discrete(2))


@pytest.mark.parametrize(("environment", "kind"), [(Speaking, "Text"), (Listing, "Sequence")])
def test_spaces_that_cannot_be_played_are_refused(monkeypatch, environment, kind):
    with pytest.raises(UserError, match=f"Own-v0 cannot be played: spaces of type {kind} are not supported"):
        task_of(environment, monkeypatch)


class Lane(spaces.Discrete):
    pass


class Derivations(Toy):
    observation_space = type("Sensors", (spaces.Dict,), {})({"lane": Lane(3), "word": type("W", (spaces.Text,), {})(4)})
    action_space = type("Wheel", (spaces.Box,), {})(-1, 1, (2,), np.float32)


def test_a_space_derived_from_a_known_kind_is_of_that_kind(monkeypatch):
    task = task_of(Derivations, monkeypatch)
    assert task.observation_space == "Dict(lane: Discrete(3), word: Text)"
    assert task.action_space == "Box(2,) float32"


def test_missions_of_babyai_fit_the_room_they_are_given():
    task = find_task("BabyAI-BossLevel-v0")
    env = simulator.make(task)
    room = simulator.schemas(task, env)[0]["spaces"]["mission"]["max_length"]
    longest = max(len(simulator.reset(env, seed)["mission"]) for seed in range(10))
    assert 20 < longest <= room


class Dials(Toy):
    action_space = spaces.MultiDiscrete([3, 3], start=[1, 1])


def test_the_example_of_a_contract_is_a_legal_action(monkeypatch):
    task = task_of(Dials, monkeypatch)
    env = simulator.make(task)
    text = render(task, *simulator.schemas(task, env))
    example = next(line for line in text.splitlines() if line.strip().startswith("return np."))
    assert env.action_space.contains(eval(example.removeprefix("        return "), {"np": np}))
    assert task.action_space == "MultiDiscrete([3, 3], [1, 1])"


class Talkative(Toy):
    def __init__(self) -> None:
        print("from Python")
        ctypes.CDLL(None).puts(b"from C")
        os.write(1, b"from the kernel\n")


def test_what_an_environment_prints_is_not_the_output_of_a_command(monkeypatch, capfd):
    print("before")
    task_of(Talkative, monkeypatch)
    print("after")
    printed = capfd.readouterr()
    assert printed.out == "before\nafter\n"
    assert {"from Python", "from C", "from the kernel"} <= set(printed.err.splitlines())


def test_packages_that_register_on_import_are_found():
    assert find_task("MiniGrid-Empty-5x5-v0").requires == ("minigrid",)


def test_a_missing_simulator_says_how_to_install_it():
    task = parse_task(MINIMAL + 'requires = ["no_such_simulator"]\n', "mine")
    with pytest.raises(UserError, match="needs no_such_simulator") as caught:
        simulator.make(task)
    assert caught.value.remedy == "pip install no_such_simulator"


@pytest.mark.parametrize(("module", "says"), [("broken_toy", "SystemExit: 7"), ("raising_toy", "RuntimeError: today")])
def test_a_simulator_that_breaks_when_it_is_imported_is_named(tmp_path, monkeypatch, module, says):
    """As MuJoCo does where MUJOCO_GL has a value that it does not know."""
    (tmp_path / "raising_toy.py").write_text("raise RuntimeError('today')\n")
    monkeypatch.syspath_prepend(tmp_path)
    task = parse_task(MINIMAL + f'requires = ["{module}"]\n', "mine")
    with pytest.raises(UserError, match=f"task mine needs {module}, which does not import: {says}"):
        simulator.make(task)


MINIMAL = """
env_id = "toys:Toy-v0"
title = "Mine"
family = "mine"
horizon = 10
observation_space = "Box(2,) float64"
action_space = "Discrete(3)"
objective = "Play."
reward = "The action."
termination = "After ten steps."
failure_return = { value = 0.0, derivation = "No reward is negative." }
"""


def test_a_task_file_is_a_task(tmp_path):
    (tmp_path / "mine.toml").write_text(MINIMAL)
    assert find_task(str(tmp_path / "mine.toml")).id == "mine"


def test_a_failure_return_can_be_a_number_alone():
    text = MINIMAL.replace('{ value = 0.0, derivation = "No reward is negative." }', "-150")
    task = parse_task(text, "mine")
    assert task.failure_return.value == -150.0 and "no reason" in task.failure_return.derivation
    with pytest.raises(UserError, match="failure_return"):
        parse_task(text.replace("-150", "true"), "mine")


@pytest.mark.parametrize(("name", "suite"), [("core16", "core16-128.toml"), ("core16/", ""), ("novel", "novel16.toml")])
def test_a_collection_is_named_as_one_with_its_suite(name, suite):
    with pytest.raises(UserError, match=f"{name.rstrip('/')} is a collection of 16 tasks") as caught:
        find_task(name)
    assert suite in str(caught.value)
    path, task = COLLECTIONS[name.rstrip("/")]
    assert (TESTS.parent / path).is_file() and find_task(task).id == task


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("x = ", "not valid"),
        (MINIMAL + "horizn = 3", "horizn; did you mean horizon"),
        ("title = 3", "not valid"),
    ],
)
def test_a_broken_task_file_says_what_is_wrong(tmp_path, text, says):
    (tmp_path / "mine.toml").write_text(text)
    with pytest.raises(UserError, match=says):
        find_task(str(tmp_path / "mine.toml"))


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("horizon = 0", "horizon must be .* not 0"),
        ("horizon = -5", "horizon must be .* not -5"),
        ("horizon = 9223372036854775808", "horizon is out of range: whole numbers are between"),
        ('requires = [""]', "requires must hold names of modules .got: ''"),
        ('requires = ["..x"]', "requires must hold names of modules .got: '..x'"),
        ("env_options = { since = 2026-01-01 }", "env_options: .*date"),
        ("failure_return = { value = nan, derivation = '' }", "failure_return.value is no finite number: inf, nan"),
        ("failure_return = { value = -inf, derivation = '' }", "failure_return.value is no finite number: inf, nan"),
        ("limits = { act_cpu = 9.0 }", r"unknown key limits.act_cpu; did you mean act_cpu_s\?"),
        ("failure_return = { valu = 0, derivation = '' }", r"unknown key failure_return.valu; did you mean value\?"),
        ("brief = { goal = '' }", r"unknown key brief.goal; the known ones are \['action', 'objective'"),
        ("observation = [{ index = '0', unt = 'm' }]", r"unknown key observation\[0\].unt; did you mean unit\?"),
        ("disguise = { image = 'film' }", "disguise.image is 'film'; it can be 'grid', 'picture', 'numbers'"),
        *[
            (f"limits = {{ {key} = {value} }}", f"{key} {says}")
            for key in ("init_cpu_s", "act_cpu_s", "episode_cpu_s", "submission_wall_s")
            for value, says in (
                ("nan", "is no finite number"),
                ("inf", "is no finite number"),
                ("-1.0", "must be a finite number greater than 0, not -1.0.*limits"),
                ("0.0", "must be a finite number greater than 0, not 0.0.*limits"),
            )
        ],
        ("limits = { memory_mb = -5 }", "memory_mb must be a finite number greater than 0, not -5"),
        ("limits = { memory_mb = 0 }", "memory_mb must be a finite number greater than 0, not 0"),
    ],
)
def test_numbers_and_names_that_cannot_be_meant_are_refused_with_their_key_and_file(tmp_path, line, says):
    rest = [other for other in MINIMAL.splitlines() if other.split(" ")[0] != line.split(" ")[0]]
    (tmp_path / "mine.toml").write_text("\n".join([*rest, line]))
    with pytest.raises(UserError, match=f"mine.toml is not valid: (limits.)?{says}"):
        find_task(str(tmp_path / "mine.toml"))


def test_a_missing_task_file_is_named(tmp_path):
    with pytest.raises(UserError, match="cannot read the task file"):
        find_task(str(tmp_path / "none.toml"))
