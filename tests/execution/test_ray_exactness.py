"""A real Ray cluster on this machine gives the same returns and files as the local engine."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from pydantic import TypeAdapter

from conftest import policy_source, toy_task, train_cases, write_policy
from evopolicygym.errors import Fault
from evopolicygym.execution.conformance import probe_folder
from evopolicygym.execution.engine import Engine, LocalEngine, OutOfTime
from evopolicygym.execution.ray.cluster import ClusterInfo, ClusterSlots, RayCluster
from evopolicygym.execution.ray.engine import RayEngine
from evopolicygym.execution.ray.remote_worker import CACHED_ENGINES
from evopolicygym.execution.records import Episode, EpisodeResult, FaultReport, Recording
from evopolicygym.sandbox.policy.protocol import ErrorKind
from evopolicygym.tasks.registry import CORE16_ORDER, core16
from evopolicygym.tasks.task import Task

SHORT = 60
QUICK = ("acrobot", "reacher")


@pytest.fixture(scope="module")
def ray_cluster() -> Iterator[RayCluster]:
    with RayCluster([toy_task()], most=2) as made:
        yield made


def ray_engine(ray_cluster: RayCluster, task: Task, **options: bool) -> RayEngine:
    return RayEngine(task, ray_cluster.info, ClusterSlots(ray_cluster), **options)


def played(
    engine: Engine, folder: Path, task: Task, count: int, record: Path | None = None, video: bool = False
) -> list[EpisodeResult | FaultReport]:
    """Return all facts of each episode, without times."""
    checkpoint = engine.store.snapshot(folder)
    episodes = [
        Episode(i, checkpoint, case, Recording(str(record / str(i)), video=video) if record else None)
        for i, case in enumerate(train_cases(task, count))
    ]
    outcomes = sorted(engine.run(episodes), key=lambda outcome: outcome.number)
    return [
        replace(
            outcome,
            wall_s=0.0,
            rollout_s=0.0,
            policy_cpu_s=0.0,
            policy_wall_s=0.0,
            act_cpu_s=0.0,
            longest_act_cpu_s=0.0,
        )
        if isinstance(outcome, EpisodeResult)
        else outcome
        for outcome in outcomes
    ]


def both(
    ray_cluster: RayCluster, task: Task, folder: Path, count: int
) -> tuple[list[EpisodeResult | FaultReport], ...]:
    with LocalEngine(task, 2) as engine:
        local = played(engine, folder, task, count)
    with ray_engine(ray_cluster, task) as remote:
        return local, played(remote, folder, task, count)


@pytest.mark.parametrize(
    "slug", [slug if slug in QUICK else pytest.param(slug, marks=pytest.mark.slow) for slug in CORE16_ORDER]
)
def test_returns_are_those_of_the_local_engine(slug, ray_cluster, tmp_path):
    task = core16()[f"core16/{slug}"]
    local, remote = both(ray_cluster, replace(task, horizon=SHORT), probe_folder(tmp_path, "random"), 5)
    assert remote == local
    assert len(local) == 5 and all(isinstance(outcome, EpisodeResult) and outcome.error is None for outcome in local)


@pytest.mark.parametrize(
    ("name", "source", "kind"),
    [
        ("Toy-v0", policy_source(act="print('hello'); raise ValueError('no')"), ErrorKind.ACT_ERROR),
        ("Toy-v0", policy_source(act="os._exit(3)"), ErrorKind.CRASH),
        pytest.param("Toy-v0", policy_source(act="return 7"), ErrorKind.INVALID_ACTION, marks=pytest.mark.slow),
        ("Toy-v0", policy_source(act="import time; time.sleep(9)"), ErrorKind.TIMEOUT),
        ("Raising-v0", policy_source(act="return 2"), ErrorKind.SIMULATOR_ERROR),
        ("Aborting-v0", policy_source(act="return 2"), ErrorKind.SIMULATOR_ERROR),
    ],
)
def test_failures_are_those_of_the_local_engine(name, source, kind, ray_cluster, tmp_path):
    local, remote = both(ray_cluster, toy_task(name), write_policy(tmp_path / "policy", source), 2)
    assert remote == local
    assert {outcome.error.kind for outcome in remote} == {kind}


def test_a_policy_that_does_not_load_is_told_so(ray_cluster, tmp_path):
    with ray_engine(ray_cluster, toy_task()) as engine:
        broken = engine.store.snapshot(write_policy(tmp_path / "broken", "import nothing_of_this_name"))
        (tmp_path / "empty").mkdir()
        missing = engine.store.snapshot(tmp_path / "empty")
        assert engine.load(broken).error.kind is ErrorKind.IMPORT_ERROR
        assert engine.load(missing).error.kind is ErrorKind.MISSING_POLICY


def test_recordings_are_those_of_the_local_engine(ray_cluster, tmp_path):
    task = toy_task("Everything-v0")
    folder = write_policy(tmp_path / "policy", policy_source(act="return self.action", init=GEARS))
    with LocalEngine(task, video=True) as engine:
        local = played(engine, folder, task, 3, tmp_path / "local", video=True)
    with ray_engine(ray_cluster, task, video=True) as remote:
        assert played(remote, folder, task, 3, tmp_path / "remote", video=True) == local
    files = sorted(path.relative_to(tmp_path / "local") for path in (tmp_path / "local").rglob("*"))
    assert files == sorted(path.relative_to(tmp_path / "remote") for path in (tmp_path / "remote").rglob("*"))
    assert {path.name for path in files} >= {"trajectory.jsonl", "episode.npz", "video.mp4"}
    for path in files:
        assert content(tmp_path / "local" / path) == content(tmp_path / "remote" / path)


GEARS = """
self.action = {"gear": 1, "wheel": np.zeros(2), "switches": np.ones(3, np.int8), "levels": np.array([1, 2], np.uint8),
               "pair": (1, np.array([1, 2]))}
"""


def content(path: Path) -> object:
    """Archives carry the time at which they were made."""
    if path.suffix == ".npz":
        with np.load(path) as arrays:
            return {name: arrays[name].tobytes() for name in arrays}
    return path.read_bytes() if path.is_file() else None


def test_folders_and_bytes_of_a_checkpoint_arrive_as_they_are(ray_cluster, tmp_path):
    folder = write_policy(
        tmp_path / "policy",
        policy_source(
            act="return int(open(here + '/data/x.bin', 'rb').read()[255] == 255)",
            top="here = os.path.dirname(os.path.abspath(__file__))",
        ),
    )
    (folder / "data").mkdir()
    (folder / "data" / "x.bin").write_bytes(bytes(range(256)))
    (folder / "empty").mkdir()
    local, remote = both(ray_cluster, toy_task(), folder, 2)
    assert remote == local and all(outcome.return_so_far > 10 for outcome in remote)


def test_a_worker_keeps_few_engines_and_asks_again_for_dropped_ones(ray_cluster, tmp_path):
    folder = write_policy(tmp_path / "policy", policy_source())
    tasks = [toy_task(horizon=n) for n in range(3, 4 + CACHED_ENGINES)]
    engines = [ray_engine(ray_cluster, task) for task in tasks]
    first = ray_engine(ray_cluster, tasks[0])
    assert {outcome.length for outcome in played(first, folder, tasks[0], 3)} == {3}
    for engine in (first, *engines):
        engine.close()


def test_a_deadline_stops_what_runs_and_leaves_the_workers_to_others(ray_cluster, tmp_path):
    endless = toy_task("Endless-v0", horizon=10**9)
    folder = write_policy(tmp_path / "policy", policy_source(act="import time; time.sleep(0.2); return 1"))
    with ray_engine(ray_cluster, endless) as engine:
        checkpoint = engine.store.snapshot(folder)
        episodes = [Episode(i, checkpoint, case) for i, case in enumerate(train_cases(endless, 4))]
        with pytest.raises(OutOfTime):
            list(engine.run(episodes, deadline=time.monotonic() + 1.0))
    local, remote = both(ray_cluster, toy_task(), write_policy(tmp_path / "other", policy_source()), 8)
    assert remote == local


ANOTHER = """
import json, sys
from conftest import toy_task
from pydantic import TypeAdapter
from test_ray_exactness import Path, RayEngine, played
from evopolicygym.execution.ray.cluster import ClusterInfo
from evopolicygym.execution.slots import OwnSlots
where = TypeAdapter(ClusterInfo).validate_json(sys.argv[1])
with RayEngine(toy_task(), where, OwnSlots(2)) as engine:
    print(json.dumps([outcome.score.hex() for outcome in played(engine, Path(sys.argv[2]), toy_task(), 8)]))
"""


def test_other_processes_play_on_the_same_workers(ray_cluster, tmp_path):
    folder = write_policy(tmp_path / "policy", policy_source())
    where = TypeAdapter(ClusterInfo).dump_json(ray_cluster.info).decode()
    environment = os.environ | {"PYTHONPATH": f"{Path(__file__).parent}:{Path(__file__).parents[1]}"}
    argv = [sys.executable, "-c", ANOTHER, where, str(folder)]
    others = [subprocess.Popen(argv, env=environment, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    local, remote = both(ray_cluster, toy_task(), folder, 8)
    scores = [outcome.score.hex() for outcome in local]
    assert remote == local and [json.loads(process.communicate()[0]) for process in others] == [scores, scores]


def test_a_task_that_no_node_can_play_is_a_fault(ray_cluster):
    with pytest.raises(Fault, match="toys:Nothing-v0"):
        ray_engine(ray_cluster, toy_task("Nothing-v0"))
