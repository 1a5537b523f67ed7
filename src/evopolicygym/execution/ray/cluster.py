"""A Ray cluster: its nodes, inspected, and a worker for each core of the nodes that may play.

The process that opens the cluster owns the workers: they end with it. Other processes find them by name.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Self

from evopolicygym.errors import UserError
from evopolicygym.execution.engine import PUBLISHABLE
from evopolicygym.execution.ray.connection import LocalRayCluster, connect, disconnect, require_token
from evopolicygym.execution.ray.messages import decode, encode
from evopolicygym.execution.ray.remote_worker import (
    NodeReport,
    NodeRequirements,
    RemoteWorker,
    inspect_node,
    reason_to_refuse,
)
from evopolicygym.execution.records import Node
from evopolicygym.execution.slots import Waitable
from evopolicygym.sandbox.policy.jail import Level
from evopolicygym.tasks.task import Task

START_S: Final = 90.0
LEAVE_S: Final = 3.0
POLL_S: Final = 0.1
LOOK_S: Final = 2.0  # between two looks for nodes that joined or left while episodes are played


@dataclass(frozen=True)
class ClusterInfo:
    """Address by which another process finds the workers."""

    address: str
    namespace: str
    token_file: str | None
    nodes: tuple[Node, ...]


@dataclass(frozen=True)
class ClusterChanges:
    """Slots of workers that joined and were lost, and nodes that were inspected, since the last poll."""

    joined: tuple[int, ...] = ()
    lost: tuple[int, ...] = ()
    nodes: tuple[Node, ...] = ()


@dataclass
class _NodeState:
    """A node from the moment that it is seen. ``node`` is None until it was inspected."""

    host: str
    cpus: int
    inspection: Any
    node: Node | None = None
    starting: dict[Any, int] = field(default_factory=dict)
    workers: list[int] = field(default_factory=list)


class RayCluster:
    """A Ray cluster with its workers. Use it as a context manager. Without an address it starts a Ray on this machine,
    and ends it again. A worker is named by its slot, a number that is never used again. At most ``most`` workers are
    started."""

    def __init__(
        self,
        tasks: Sequence[Task],
        levels: tuple[Level, ...] = PUBLISHABLE,
        address: str | None = None,
        most: int | None = None,
    ) -> None:
        self._requirements = NodeRequirements(tuple(tasks), levels)
        self._address, self._most = address, most
        self._namespace = f"evopolicygym-{secrets.token_hex(8)}"
        self._states: dict[str, _NodeState] = {}
        self._actors: list[Any] = []  # kept: Ray ends an actor when its owner holds no reference
        self._stack = ExitStack()
        self._token_file: str | None = None
        self.scratch: Path | None = None  # a folder that is removed with a Ray of our own, however the process ends

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            given = self._address
            if given is None:
                local = stack.enter_context(LocalRayCluster(self._most or 1))
                self._address, self._token_file = local.address(), str(local.token_file)
                self.scratch = local.folder
            self._ray = connect(self._address or "auto", self._namespace, self._token_file)
            stack.callback(disconnect)
            self._address = self._ray.get_runtime_context().gcs_address
            if given is not None:
                require_token(self._address)
            stack.callback(self._end_workers)
            self._await_workers()
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *exception: object) -> None:
        self._stack.close()

    @property
    def total(self) -> int:
        """The number of workers that were started, including those that have ended."""
        return len(self._actors)

    @property
    def workers(self) -> tuple[int, ...]:
        """Slots of the workers that are there."""
        return tuple(slot for state in self._states.values() for slot in state.workers)

    @property
    def nodes(self) -> tuple[Node, ...]:
        """All nodes that are there and were inspected."""
        return tuple(state.node for state in self._states.values() if state.node)

    @property
    def info(self) -> ClusterInfo:
        assert self._address
        return ClusterInfo(self._address, self._namespace, self._token_file, self.nodes)

    def poll(self) -> ClusterChanges:
        """Look for nodes that joined or left. Never waits for a node."""
        present = {facts["NodeID"]: facts for facts in self._ray.nodes() if facts["Alive"]}
        lost = [slot for name in self._states.keys() - present for slot in self._states.pop(name).workers]
        for name in present.keys() - self._states:
            self._states[name] = self._begin_inspection(name, present[name])
        nodes = [self._admit(name, state) for name, state in self._states.items() if self._is_inspected(state)]
        joined = [slot for state in self._states.values() for slot in self._started_workers(state)]
        return ClusterChanges(tuple(joined), tuple(lost), tuple(nodes))

    def _await_workers(self) -> None:
        """Wait until every node has its workers, or START_S have passed."""
        deadline = time.monotonic() + START_S
        while not self._states or any(state.node is None or state.starting for state in self._states.values()):
            if time.monotonic() > deadline:
                break
            self.poll()
            time.sleep(POLL_S)
        if not self.workers:
            reasons = [f"\n  {node.host}: {node.refused or 'all its cores are in use'}" for node in self.nodes]
            raise UserError(
                f"no node of the cluster can play{''.join(reasons)}",
                "`evopolicygym docs cluster` says what nodes need.",
            )

    def _end_workers(self) -> None:
        """Give workers a moment to remove their files."""
        leaving = [actor.leave.remote() for actor in self._actors]
        if leaving:
            self._ray.wait(leaving, num_returns=len(leaving), timeout=LEAVE_S)

    def _begin_inspection(self, name: str, facts: dict[str, Any]) -> _NodeState:
        remote = self._on_node(name, self._ray.remote(inspect_node), num_cpus=0, max_retries=0)
        inspection = remote.remote(encode(self._requirements))
        return _NodeState(facts["NodeManagerHostname"], int(facts["Resources"].get("CPU", 0)), inspection)

    def _is_inspected(self, state: _NodeState) -> bool:
        return state.node is None and bool(self._ray.wait([state.inspection], timeout=0)[0])

    def _admit(self, name: str, state: _NodeState) -> Node:
        """Start workers on a node that passes; record the reason for one that does not."""
        try:
            report = decode(self._ray.get(state.inspection), NodeReport)
            refused = reason_to_refuse(self._requirements, report)
            level, cores = report.level or Level.NONE, report.cores
        except self._ray.exceptions.RayError as error:
            refused, level, cores = f"it cannot be inspected: {str(error).strip().splitlines()[-1]}", Level.NONE, 0
        room = state.cpus if self._most is None else min(state.cpus, self._most - len(self._actors))
        count = 0 if refused else min(cores, room)
        state.node = Node(name[:8], state.host, "" if refused else level, count, refused)
        state.starting = dict(self._start_worker(name, state.node, number) for number in range(count))
        return state.node

    def _start_worker(self, name: str, node: Node, number: int) -> tuple[Any, int]:
        slot = len(self._actors)
        remote = self._ray.remote(RemoteWorker)
        actor_class = self._on_node(name, remote, num_cpus=1, max_restarts=-1, name=worker_name(slot))
        actor = actor_class.remote(number, encode(node))
        self._actors.append(actor)
        return actor.ready.remote(), slot

    def _started_workers(self, state: _NodeState) -> list[int]:
        """Return the slots of workers of this node that have started since the last call."""
        started = (
            self._ray.wait([*state.starting], num_returns=len(state.starting), timeout=0)[0] if state.starting else []
        )
        slots = [state.starting.pop(reference) for reference in started]
        state.workers += slots
        return slots

    def _on_node(self, node_id: str, remote: Any, **options: Any) -> Any:
        """Bind a remote function or class to one node."""
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        return remote.options(scheduling_strategy=NodeAffinitySchedulingStrategy(node_id, soft=False), **options)


class ClusterSlots:
    """The slots of a run that has a cluster to itself: its workers, as they come and go."""

    waitable: Sequence[Waitable] = ()
    first_core = 0

    def __init__(self, cluster: RayCluster) -> None:
        self._cluster, self._held, self._wanted = cluster, set[int](), 0
        self._looked = time.monotonic()

    @property
    def total(self) -> int:
        return len(self._cluster.workers)

    @property
    def at_once(self) -> int:
        return self.total

    def want(self, count: int, urgent: bool) -> None:
        self._wanted = count

    def granted(self) -> list[int]:
        if time.monotonic() - self._looked > LOOK_S:
            self._cluster.poll()
            self._looked = time.monotonic()
        workers = self._cluster.workers
        free = [slot for slot in workers if slot not in self._held]
        new = free[: max(0, self._wanted - (len(workers) - len(free)))]
        self._held.update(new)
        return new

    def give_back(self, slot: int) -> None:
        self._held.discard(slot)


def worker_name(slot: int) -> str:
    return f"worker-{slot}"
