"""Errors of policies and simulators: each has its kind and its message, and the engine continues."""

from __future__ import annotations

import math
import tempfile
from pathlib import Path

import numpy as np
import pytest

from conftest import policy_source, toy_task, write_policy
from evopolicygym.errors import Fault
from evopolicygym.execution.engine import NO_VIDEO
from evopolicygym.execution.records import EpisodeResult, FaultReport, Recording
from evopolicygym.limits import Limits
from evopolicygym.sandbox.policy import policy_process
from evopolicygym.sandbox.policy.jail import Level
from evopolicygym.sandbox.policy.policy_process import PolicyArguments, PolicyProcess
from evopolicygym.sandbox.policy.protocol import ErrorKind
from evopolicygym.sandbox.policy.zygote_client import Zygote
from evopolicygym.sandbox.probes import BOX

EVIL_NUMBER = """
class Evil:
    def __index__(self): return 1
    def __float__(self): return 1.0
"""

FAILURES = [
    ("import_error", policy_source(top="import no_such_module"), "line 3", "No module named 'no_such_module'"),
    ("import_error", policy_source(top="import gymnasium"), "line 3", "policies may import"),
    ("import_error", policy_source(top="def broken(:"), "line 3", "SyntaxError"),
    ("import_error", "x = 1\n", "", "defines no class Policy"),
    ("import_error", policy_source(top="raise KeyError('at import')"), "line 3", "at import"),
    ("import_error", policy_source(top="sys.exit(3)"), "line 3", "SystemExit"),
    ("init_error", policy_source(init="self.x = 1 / 0"), "line 6", "ZeroDivisionError"),
    ("init_error", "class Policy:\n    def reset(self, i): pass\n", "", "no method act"),
    ("init_error", "class Policy:\n    def act(self, o): pass\n", "", "no method reset"),
    ("init_error", "class Policy:\n    def __init__(self, one): pass\n    def reset(self, i): pass\n"
     "    def act(self, o): pass\n", "", "must accept (obs_space, action_space, env_meta)"),
    ("reset_error", policy_source(reset="raise ValueError('no reset today')"), "line 8", "no reset today"),
    ("act_error", policy_source(act="return self.missing"), 'File "policy.py", line 10, in act', "AttributeError"),
    ("act_error", policy_source(act="raise OSError(f'x/{__file__}')"), 'File "policy.py", line 10', "x//"),
    ("act_error", policy_source(act="import gymnasium"), "line 10", "policies may import"),
    ("act_error", policy_source(act="raise SystemExit"), "line 10", "SystemExit"),
    ("act_error", policy_source(act="raise RecursionError('deep')"), "line 10", "deep"),
    ("act_error", policy_source(act="def f(): f()\nf()"), "line 10", "RecursionError"),
    ("invalid_action", policy_source(act="return None"), "", "must be one integer from 0 to 2, got NoneType None"),
    ("invalid_action", policy_source(act="return 1.0"), "", "must be one integer from 0 to 2, got float 1.0"),
    ("invalid_action", policy_source(act="return [0, 1]"), "", "must be one integer"),
    ("invalid_action", policy_source(act="return 3"), "", "from 0 to 2, got 3"),
    ("invalid_action", policy_source(act="return -1"), "", "from 0 to 2, got -1"),
    ("invalid_action", policy_source(act="return 10**30"), "", "must be one integer"),
    ("invalid_action", policy_source(top=EVIL_NUMBER, act="return Evil()"), "", "got Evil"),
    ("timeout", policy_source(act="while True: pass"), "", "no answer within 0.3 s of CPU time"),
    ("timeout", policy_source(init="while True: pass"), "", "no answer within 1 s of CPU time"),
    ("timeout", policy_source(top="while True: pass"), "", "no answer within 1 s of CPU time"),
    ("timeout", policy_source(act="import time; time.sleep(9)"), "", "no answer within 3 s of wall time"),
    ("oom", policy_source(act="x = bytearray(1 << 40)"), "line 10", "out of memory (512 MiB)"),
    ("oom", policy_source(act="x = np.ones(1 << 33)"), "line 10", "out of memory (512 MiB)"),
    ("crash", policy_source(act="os._exit(7)"), "", "exited with code 7"),
    ("crash", policy_source(act="import ctypes; ctypes.string_at(0)"), "", "died of signal 11"),
    ("crash", policy_source(act="os.close(4)"), "", ""),
    ("crash", policy_source(act="os.write(4, b'x')"), "", "broke the exchange"),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "source", "where", "what"), FAILURES, ids=range(len(FAILURES)))
def test_each_failure_has_its_kind_and_says_where(policy_player, kind, source, where, what):
    result = policy_player().play(source)
    assert result.error is not None
    assert result.error.kind == kind, result.error
    assert where in result.error.text
    assert what in result.error.text
    assert result.score == -5.0
    assert policy_player().play(policy_source()).length == 10


def test_a_failed_episode_scores_the_lower_of_return_and_failure_return(policy_player):
    source = policy_source(act="if obs[0] == 4: raise ValueError\nreturn 2")
    result = policy_player().play(source)
    assert result.return_so_far > 8
    assert result.score == -5.0
    assert result.length == 4
    low = policy_player(toy_task("Steering-v0", failure=-1.0))
    source = policy_source(act="if obs[0] == 4: raise ValueError\nreturn [-1, 0]")
    assert low.play(source).score == -4.0


def test_helper_modules_keep_their_names_in_tracebacks(policy_player):
    result = policy_player().play(
        "import helper\n" + policy_source(act="return helper.f(obs)"), helper="def f(obs):\n    return obs['x']\n"
    )
    assert result.error is not None
    assert 'File "policy.py", line 11, in act' in result.error.text
    assert 'File "helper.py", line 2, in f' in result.error.text
    assert "evopolicygym" not in result.error.text


def test_output_is_captured_and_bounded(policy_player):
    result = policy_player().play(policy_source(act="print('x' * 100_000); print('oops', file=sys.stderr); return 1"))
    assert result.error is None
    assert len(result.stdout) == 64 * 1024
    assert result.stderr.startswith("oops\n")
    assert policy_player().play(policy_source()).stdout == ""


def test_error_text_is_bounded(policy_player):
    result = policy_player().play(policy_source(act="raise ValueError('y' * 10_000_000)"))
    assert result.error is not None
    assert len(result.error.text) < 20_000
    assert "characters left out" in result.error.text


@pytest.mark.parametrize("text", ["raise ValueError(Evil())", "raise Evil2()"])
def test_an_exception_that_cannot_be_shown_is_still_an_error(policy_player, text):
    top = """
    class Evil:
        def __str__(self): raise KeyError
        __repr__ = __str__
    class Evil2(Exception):
        def __str__(self): os._exit(0)
    """
    result = policy_player().play(policy_source(top=top, act=text))
    assert result.error is not None
    assert result.error.kind in ("act_error", "crash")


def test_the_cpu_limit_of_an_episode_is_kept_over_many_short_acts(policy_player):
    source = policy_source(
        act="import time\nt = time.process_time()\nwhile time.process_time() - t < 0.2: pass\nreturn 1"
    )
    result = policy_player(toy_task("Endless-v0", horizon=10_000)).play(source)
    assert result.error is not None
    assert result.error.kind is ErrorKind.TIMEOUT
    assert "3 s of CPU time for one episode" in result.error.text


def test_box_actions_are_clipped_and_counted(policy_player):
    steering = policy_player(toy_task("Steering-v0"))
    result = steering.play(policy_source(act="return [5, -7] if obs[0] < 3 else np.array([0.5, 1.0])"))
    assert result.error is None
    assert result.clipped_actions == 3
    assert result.score == 3 * 1.0 + 7 * 1.5


@pytest.mark.parametrize(
    ("act", "says"),
    [
        ("return [float('nan'), 0]", "finite"),
        ("return [float('inf'), 0]", "finite"),
        ("return np.array([1e300, 0])", "finite"),
        ("return [1]", "must have shape (2,), got shape (1,)"),
        ("return [[1, 2]]", "must have shape (2,), got shape (1, 2)"),
        ("return [[1], [2, 3]]", "must be an array of shape (2,)"),
        ("return 0.5", "must have shape (2,), got shape ()"),
        ("return ['a', 'b']", "must be numbers"),
        ("return [None, 1]", "must be numbers"),
        ("return [1j, 0]", "must be numbers"),
    ],
)
def test_invalid_box_actions(policy_player, act, says):
    result = policy_player(toy_task("Steering-v0")).play(policy_source(act=act))
    assert result.error is not None
    assert result.error.kind is ErrorKind.INVALID_ACTION
    assert says in result.error.text


def test_every_kind_of_space_arrives_as_it_was_sent(policy_player):
    act = """
    assert obs["image"].shape == (12, 9, 3) and obs["image"].dtype == np.uint8 and (obs["image"] == self.n).all()
    assert obs["word"] == "step " + "é" * (self.n % 7)
    assert obs["direction"] == self.n % 4 - 1 and type(obs["direction"]) is int
    assert obs["switches"].tolist() == [1, 0, 1, 0, 1] and obs["dials"].tolist() == [2, 3]
    assert obs["pair"][0] == self.n % 2 and obs["pair"][1].tolist() == [[0.5, 0.5], [0.5, 0.5]]
    obs["image"][:] = 0
    self.n += 1
    return {"gear": -1, "wheel": (0.25, -2), "switches": [1, 0, 1], "levels": [100, 300], "pair": (2, [4, 5])}
    """
    result = policy_player(toy_task("Everything-v0")).play(policy_source(init="self.n = 0", act=act))
    assert result.error is None, result.error
    assert result.score == 10 * 300.0  # 100, and 300 clipped to 200
    assert result.clipped_actions == 10


def test_a_repeated_simulator_error_is_charged_to_the_policy(policy_player):
    result = policy_player(toy_task("Raising-v0")).play(policy_source(act="return 2 if obs[0] == 3 else 1"))
    assert result.error is not None
    assert result.error.kind is ErrorKind.SIMULATOR_ERROR
    assert "the toy cannot take a 2" in result.error.text
    assert result.length == 3
    assert result.score == -5.0


def test_a_simulator_error_that_does_not_repeat_is_a_fault(policy_player, tmp_path, monkeypatch):
    monkeypatch.setenv("TOY_MARKER", str(tmp_path / "marker"))
    flaky = policy_player(toy_task("Flaky-v0"))
    (outcome,) = flaky.outcomes(policy_source())
    assert isinstance(outcome, FaultReport)
    assert "only once" in outcome.text
    assert flaky.play(policy_source()).error is None


@pytest.mark.parametrize(
    ("toy", "fatal", "harmless"), [("Raising-v0", "2", "1"), ("Altering-v0", "[0.9, 0]", "[0.1, 0]")]
)
def test_a_policy_that_acts_by_the_clock_cannot_turn_its_error_into_a_fault(policy_player, toy, fatal, harmless):
    """Every other microsecond it plays what the simulator cannot take: a fault in a quarter of all episodes, if the
    policy itself were asked again."""
    act = (
        f"import time\nodd = time.perf_counter_ns() // 1000 % 2\nreturn {fatal} if obs[0] == 3 and odd else {harmless}"
    )
    outcomes = policy_player(toy_task(toy)).outcomes(policy_source(act=act), 32)
    assert [outcome for outcome in outcomes if isinstance(outcome, FaultReport)] == []
    errors = [outcome.error.kind for outcome in outcomes if isinstance(outcome, EpisodeResult) and outcome.error]
    assert set(errors) == {ErrorKind.SIMULATOR_ERROR}
    assert len(errors) < 32


def test_an_episode_with_a_simulator_error_is_recorded_as_played(policy_player, tmp_path):
    act = "print('at', obs[0]); return [0.9 if obs[0] == 3 else 0.25, 7]"
    result = policy_player(toy_task("Altering-v0")).play(policy_source(act=act), Recording(str(tmp_path)))
    assert result.error is not None and "whenever these actions are repeated" in result.error.text
    assert (result.length, result.clipped_actions, result.stdout.count("at")) == (3, 4, 4)


def test_a_simulator_error_after_too_many_actions_is_charged_to_the_policy(monkeypatch):
    """Memory stays bounded, and a policy cannot make its actions unrepeatable to have its error called a fault."""
    arguments = PolicyArguments(BOX, BOX, {})
    monkeypatch.setattr(policy_process, "MAX_RECORD_BYTES", 100 * 73)
    with tempfile.TemporaryDirectory() as folder:
        write_policy(Path(folder) / "p", policy_source(act="return obs"))
        zygote = Zygote(Level.NONE, Path(folder))
        policy = PolicyProcess(zygote, "p", arguments, Limits(), bytes(32))
        policy.wait_ready()
        policy.reset(np.zeros(8))
        policy.first_action()
        played = [policy.act(np.full(8, number / 100)) for number in range(80)]
        recorded = policy.recorded()
        assert recorded is not None
        recorded.reset(np.zeros(8))
        recorded.first_action()
        assert np.array_equal([recorded.act(np.zeros(8)) for _ in range(80)], played)
        with pytest.raises(Fault, match="continued after the step at which it had raised"):
            recorded.act(np.zeros(8))
        for _ in range(100):
            policy.act(np.zeros(8))
        assert policy.recorded() is None
        policy.close()
        zygote.close()


def test_a_simulator_that_dies_is_replaced_and_the_rest_is_played(policy_player):
    aborting = policy_player(toy_task("Aborting-v0"), jobs=2)
    outcomes = aborting.outcomes(policy_source(act="return 2 if obs[1] > 0.5 else 1"), 8)
    results = [outcome for outcome in outcomes if isinstance(outcome, EpisodeResult)]
    assert len(results) == 8
    died = [result for result in results if result.error]
    assert 0 < len(died) < 8
    assert {result.error.kind for result in died if result.error} == {ErrorKind.SIMULATOR_ERROR}


def test_an_episode_whose_rendering_crashes_is_played_without_video(policy_player, tmp_path):
    filmed = policy_player(toy_task("Deadly-v0"), video=True).play(
        policy_source(), Recording(str(tmp_path), video=True)
    )
    plain = policy_player(toy_task("Deadly-v0")).play(policy_source())
    assert (filmed.error, filmed.score, filmed.length) == (None, plain.score, plain.length)
    assert filmed.left_out == (NO_VIDEO,) and plain.left_out == ()


def test_crashing_the_simulator_while_rendering_gains_nothing(policy_player, tmp_path):
    aborting = policy_player(toy_task("Aborting-v0"), video=True)
    result = aborting.play(policy_source(act="return 2"), Recording(str(tmp_path), video=True))
    assert result.error is not None and result.error.kind is ErrorKind.SIMULATOR_ERROR


def test_a_reward_that_is_not_a_number_is_never_a_score(policy_player):
    result = policy_player(toy_task("NotANumber-v0")).play(policy_source())
    assert result.error is not None
    assert result.error.kind is ErrorKind.SIMULATOR_ERROR
    assert math.isfinite(result.score)


def test_the_horizon_truncates_endless_episodes(policy_player):
    result = policy_player(toy_task("Endless-v0", horizon=25)).play(policy_source())
    assert (result.length, result.truncated, result.terminated) == (25, True, False)


def test_a_policy_gets_the_same_arguments_every_time(policy_player):
    result = policy_player().play(
        policy_source(init="print(env_meta, obs_space, action_space)", reset="print(episode_index)")
    )
    assert "'max_episode_steps': 10" in result.stdout
    assert result.stdout.endswith("\n0\n")


def test_rewards_that_add_up_to_no_number_are_never_a_score(policy_player):
    result = policy_player(toy_task("Huge-v0")).play(policy_source())
    assert result.error is not None
    assert result.error.kind is ErrorKind.SIMULATOR_ERROR
    assert math.isfinite(result.score)


def test_an_observation_outside_its_space_is_a_fault(policy_player):
    (outcome,) = policy_player(toy_task("Misshapen-v0")).outcomes(policy_source())
    assert isinstance(outcome, FaultReport)
    assert "observation of shape (3,)" in outcome.text


def test_a_rendering_error_is_a_fault(policy_player, tmp_path):
    undrawable = policy_player(toy_task("Undrawable-v0"), video=True)
    (outcome,) = undrawable.outcomes(policy_source(), 1, Recording(str(tmp_path / "film"), video=True))
    assert isinstance(outcome, FaultReport)
    assert "no picture today" in outcome.text


def test_the_time_of_the_simulator_is_not_the_policys(policy_player):
    hasty = Limits(init_cpu_s=1.0, act_cpu_s=0.2, episode_cpu_s=0.2, memory_mb=512)
    result = policy_player(toy_task("Slow-v0", limits=hasty)).play(
        policy_source(act="import time; time.sleep(0.07); return 1")
    )
    assert result.error is None, result.error


@pytest.mark.parametrize(
    ("toy", "act"),
    [
        ("Free-v0", "return [np.inf, 0]"),
        ("Free-v0", "return [np.nan, 0]"),
        ("Dials-v0", "return [99, 0]"),
        ("Dials-v0", "return [0, -7]"),
        ("Levels-v0", "return [1e19, 0]"),
        ("Levels-v0", "return [np.inf, 0]"),
        ("Levels-v0", "return np.array([2**64 - 1, 0], np.uint64)"),
    ],
)
def test_actions_outside_every_space_are_refused(policy_player, toy, act):
    result = policy_player(toy_task(toy)).play(policy_source(act=act))
    assert result.error is not None
    assert result.error.kind is ErrorKind.INVALID_ACTION


def test_large_finite_actions_reach_an_unbounded_space(policy_player):
    assert policy_player(toy_task("Free-v0")).play(policy_source(act="return [1e300, -1e300]")).score == 10.0


def test_a_policy_may_choose_its_act_in_reset(policy_player):
    result = policy_player().play(policy_source(act="return 0", reset="self.act = lambda obs: 2"))
    assert result.error is None
    assert result.score >= 20
