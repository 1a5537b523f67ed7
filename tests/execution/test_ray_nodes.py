"""A cluster of several Ray nodes on this machine: which of them play, and what happens when one is lost."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from conftest import policy_source, toy_task, train_cases, write_policy
from evopolicygym.errors import IsolationUnavailable, UserError
from evopolicygym.execution.engine import Engine, LocalEngine
from evopolicygym.execution.ray.cluster import ClusterSlots, RayCluster
from evopolicygym.execution.ray.engine import RayEngine
from evopolicygym.execution.records import Episode, EpisodeResult, Node
from evopolicygym.sandbox.policy.jail import Level
from process_helpers import wait_until
from ray_helpers import WITHOUT_MOUNTS, Cluster, kill_node

SLOW = policy_source(act="import time; time.sleep(0.01); return int(obs[1] * 3) % 3")


def play(engine: Engine, folder: Path, count: int) -> Iterator[EpisodeResult]:
    task = toy_task()
    checkpoint = engine.store.snapshot(folder)
    for outcome in engine.run(Episode(i, checkpoint, case) for i, case in enumerate(train_cases(task, count))):
        assert isinstance(outcome, EpisodeResult), outcome
        yield replace(
            outcome,
            wall_s=0.0,
            rollout_s=0.0,
            policy_cpu_s=0.0,
            policy_wall_s=0.0,
            act_cpu_s=0.0,
            longest_act_cpu_s=0.0,
        )


def reaches_level_a() -> bool:
    try:
        LocalEngine(toy_task(), levels=(Level.A,)).close()
    except IsolationUnavailable:
        return False
    return True


@pytest.fixture
def another_scipy(tmp_path: Path) -> Path:
    """A folder of metadata that says so; importing finds nothing there."""
    facts = tmp_path / "other" / "scipy-9.9.9.dist-info"
    facts.mkdir(parents=True)
    (facts / "METADATA").write_text("Metadata-Version: 2.1\nName: scipy\nVersion: 9.9.9\n")
    return facts.parent


def test_some_nodes_may_not_play_and_one_that_is_killed_costs_nothing(another_scipy, tmp_path, monkeypatch, caplog):
    folder, count = write_policy(tmp_path / "policy", SLOW), 40
    levels = (Level.A,) if reaches_level_a() else (Level.A, Level.B)
    with LocalEngine(toy_task(), 2, levels) as local:
        expected = sorted(play(local, folder, count), key=lambda outcome: outcome.number)
    with Cluster() as cluster:
        monkeypatch.setenv("RAY_AUTH_TOKEN_PATH", str(cluster.token_file))
        second = cluster.join()
        cluster.join(PYTHONPATH=f"{another_scipy}:{cluster.environment['PYTHONPATH']}")
        if levels == (Level.A,):
            cluster.join(wrapper=WITHOUT_MOUNTS)
        with RayCluster([toy_task()], levels, cluster.address) as ray_cluster:
            assert wait_until(
                lambda: ray_cluster.poll() and len(ray_cluster.nodes) == len(cluster.nodes) and ray_cluster.total == 2,
                60,
            )
            assert wait_until(lambda: ray_cluster.poll() and len(ray_cluster.workers) == 2, 60)
            refused = " ".join(node.refused for node in ray_cluster.nodes)
            assert "bit_id of toys:Toy-v0" in refused
            assert levels != (Level.A,) or "reaches no level of isolation" in refused
            assert sum(node.seats for node in ray_cluster.nodes) == 2
            with RayEngine(toy_task(), ray_cluster.info, ClusterSlots(ray_cluster), levels) as engine:
                results = []
                for outcome in play(engine, folder, count):
                    results.append(outcome)
                    if len(results) == 8:
                        kill_node(second)
                assert sorted(results, key=lambda outcome: outcome.number) == expected
                assert "was lost with" in caplog.text
                assert wait_until(lambda: ray_cluster.poll() and len(ray_cluster.workers) == 1, 60)
                cluster.join()
                assert wait_until(lambda: ray_cluster.poll() and len(ray_cluster.workers) == 2, 60)
                joined: list[Node] = []
                engine.watch(joined.append)
                assert sorted(play(engine, folder, 16), key=lambda outcome: outcome.number) == expected[:16]
                assert [node.level for node in joined] == [engine.level] and len(engine.nodes) == len(cluster.nodes)


def test_a_cluster_without_a_token_is_refused(monkeypatch):
    with Cluster(token=False) as cluster:
        monkeypatch.setenv("RAY_AUTH_TOKEN_PATH", str(cluster.token_file))
        with (
            pytest.raises(UserError, match="takes commands without a token"),
            RayCluster([toy_task()], address=cluster.address),
        ):
            pass
