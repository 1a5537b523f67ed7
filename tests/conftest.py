"""Shared by all tests: a fixed environment, toy tasks, policies from source, engines, servers."""

from __future__ import annotations

import atexit
import os
import shutil
import signal
import sys
import tempfile
import textwrap
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from _pytest.mark.structures import ParameterSet
from hypothesis import HealthCheck, settings

import single_threaded  # noqa: F401
from evopolicygym.execution.engine import PUBLISHABLE, LocalEngine
from evopolicygym.execution.records import Episode, EpisodeResult, FaultReport, Recording
from evopolicygym.limits import Limits
from evopolicygym.sandbox.policy.jail import Level
from evopolicygym.tasks.registry import CORE16_ORDER
from evopolicygym.tasks.splits import Case, PaperSplits, Split, cases
from evopolicygym.tasks.task import FailureReturn, Task

if TYPE_CHECKING:
    from server_helpers import Server

TESTS = Path(__file__).parent
sys.path.append(str(TESTS / "agents"))  # the scripted model answers other folders' tests, too
OTHER_MACHINE = TESTS / "other_machine"  # on PYTHONPATH it replaces the CPU features and libc that identify a machine


UNWANTED = ("CI", "COLUMNS", "LINES", "FORCE_COLOR", "NO_COLOR", "LANGUAGE", "LC_", "XDG_", "PYTHON", "EVOPOLICYGYM_")


def _use_known_surroundings() -> None:
    """Set what tests inherit and pass on, however they were started (shell, background job, nohup): default signals,
    umask, language, time zone, terminal, a configuration folder of their own, a HOME; and remove variables that change
    what programs print or write."""
    for number, handler in ((signal.SIGINT, signal.default_int_handler), (signal.SIGHUP, signal.SIG_DFL)):
        signal.signal(number, handler)
    signal.pthread_sigmask(signal.SIG_SETMASK, [])
    os.umask(0o022)
    pretending = str(OTHER_MACHINE) in os.environ.get("PYTHONPATH", "")
    for name in [name for name in os.environ if name.startswith(UNWANTED) and "_TEST_" not in name]:
        del os.environ[name]
    config = tempfile.mkdtemp(prefix="evopolicygym-tests-")
    atexit.register(shutil.rmtree, config, ignore_errors=True)
    if not os.access(os.environ.get("HOME", ""), os.W_OK):
        os.environ["HOME"] = config
    os.environ |= {
        "PYTHONPATH": os.pathsep.join([str(TESTS), *([str(OTHER_MACHINE)] if pretending else [])]),  # the toys
        "XDG_CONFIG_HOME": config,
        "LANG": "C.UTF-8",
        "TZ": "UTC",
        "TERM": "dumb",
    }


_use_known_surroundings()
# Test processes run side by side: hidden scoring in one must not wait for agents of another.
os.environ["EVOPOLICYGYM_LOCKS"] = LOCKS = tempfile.mkdtemp(prefix="evopolicygym-test-locks-")
atexit.register(lambda: [shutil.rmtree(folder, ignore_errors=True) for folder in (LOCKS, f"{LOCKS}-nobody")])
os.environ["EVOPOLICYGYM_CACHE"] = CACHE = tempfile.mkdtemp(prefix="evopolicygym-test-cache-")
atexit.register(shutil.rmtree, CACHE, ignore_errors=True)
# No test asserts a wall time, not even through its tools.
settings.register_profile("unhurried", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("unhurried")
QUICK = Limits(init_cpu_s=1.0, act_cpu_s=0.3, episode_cpu_s=3.0, memory_mb=512)


def toy_task(name: str = "Toy-v0", horizon: int = 10, limits: Limits = QUICK, failure: float = -5.0) -> Task:
    return Task(
        id=f"toys:{name}",
        env_id=f"toys:{name}",
        title="A toy",
        family="toys",
        horizon=horizon,
        observation_space="",
        action_space="",
        objective="Play.",
        reward="The action.",
        termination="After ten steps.",
        failure_return=FailureReturn(failure, "By decree."),
        limits=limits,
    )


KINDS = ("acrobot", "bipedal-walker", "car-racing", "reacher", "key-corridor", "parking", "fetch-push")


def one_of_each_kind(slugs: Iterable[str] = CORE16_ORDER) -> list[ParameterSet]:
    """Return tasks of Core16 as parameters of a test that plays episodes: `make test` plays one task of each kind of
    simulator, `make prove` the others."""
    return [pytest.param(slug, marks=() if slug in KINDS else pytest.mark.slow) for slug in slugs]


def write_policy(folder: Path, source: str, **files: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "policy.py").write_text(textwrap.dedent(source))
    for name, text in files.items():
        (folder / f"{name}.py").write_text(textwrap.dedent(text))
    return folder


def policy_source(act: str = "return 1", init: str = "pass", reset: str = "pass", top: str = "") -> str:
    """Return the source of a policy with these method bodies."""

    def body(text: str) -> str:
        return textwrap.indent(textwrap.dedent(text), " " * 8)

    return (
        f"import os, sys\nimport numpy as np\n{textwrap.dedent(top)}\n"
        "class Policy:\n"
        f"    def __init__(self, obs_space, action_space, env_meta):\n{body(init)}\n"
        f"    def reset(self, episode_index):\n{body(reset)}\n"
        f"    def act(self, obs):\n{body(act)}\n"
    )


def train_cases(task: Task, count: int) -> list[Case]:
    return cases(PaperSplits(), task.id, Split.TRAIN, list(range(count)))


Outcome = EpisodeResult | FaultReport


class PolicyPlayer:
    """An engine that plays policies given as source."""

    def __init__(self, task: Task, folder: Path, jobs: int = 1, levels: tuple[Level, ...] = PUBLISHABLE,
                 video: bool = False) -> None:  # fmt: skip
        self.task, self.folder = task, folder
        self.engine = LocalEngine(task, jobs, levels, video=video)

    def outcomes(self, source: str, count: int = 1, recording: Recording | None = None, **files: str) -> list[Outcome]:
        policy = write_policy(self.folder / f"policy-{os.urandom(4).hex()}", source, **files)
        checkpoint = self.engine.store.snapshot(policy)
        episodes = [Episode(i, checkpoint, case, recording) for i, case in enumerate(train_cases(self.task, count))]
        return sorted(self.engine.run(episodes), key=lambda outcome: outcome.number)

    def play(self, source: str, recording: Recording | None = None, **files: str) -> EpisodeResult:
        (outcome,) = self.outcomes(source, 1, recording, **files)
        assert isinstance(outcome, EpisodeResult), outcome
        return outcome


@pytest.fixture(scope="module")
def policy_player(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., PolicyPlayer]]:
    """Return a function that makes a PolicyPlayer: one for each set of arguments, shared by the tests of a module."""
    made: dict[object, PolicyPlayer] = {}

    def make(task: Task | None = None, **options: object) -> PolicyPlayer:
        task = task or toy_task()
        key = (task.id, task.horizon, task.limits, repr(sorted(options.items())))
        if key not in made:
            made[key] = PolicyPlayer(task, tmp_path_factory.mktemp("checkpoints"), **options)  # type: ignore[arg-type]
        return made[key]

    yield make
    for player in made.values():
        player.engine.close()


def _serving(folder: Path) -> Iterator[Callable[..., Server]]:
    from server_helpers import Server

    opened: list[Server] = []

    def make(*options: str, name: str = "run", **more: str) -> Server:
        opened.append(Server(folder / name, *options, **more))
        return opened[-1]

    yield make
    for server in opened:
        server.close()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print the figures that long tests measured."""
    for report in terminalreporter.getreports("passed"):
        for name, value in report.user_properties:
            terminalreporter.write_line(f"{name}: {value}")


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Callable[..., Server]]:
    """Serve runs of toy tasks: ``serve(*options, task=..., name=...)``."""
    yield from _serving(tmp_path)


@pytest.fixture(scope="module")
def serve_for_all(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., Server]]:
    """The same as ``serve``, for servers that the tests of a module share."""
    yield from _serving(tmp_path_factory.mktemp("runs"))


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--within", type=float, metavar="SECONDS", help="Skip the tests that did not start within SECONDS")


STARTED = time.monotonic()


def pytest_runtest_setup(item: pytest.Item) -> None:
    within = item.config.getoption("--within")
    if within is not None and time.monotonic() - STARTED > within:
        pytest.skip(f"did not start within {within:g} s; `make test` runs it")
