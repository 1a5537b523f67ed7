"""The fleet: the nodes of a cluster, inspected, and the seats on those that may play.

Whoever makes the fleet owns its seats: they end with it. Other processes find them by name.
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
from evopolicygym.execution.ray.connection import connect, disconnect, require_token
from evopolicygym.execution.ray.local_cluster import LocalRayCluster
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


@dataclass(frozen=True)
class ClusterInfo:
    """What another process needs to find the seats."""

    address: str
    namespace: str
    token_file: str | None
    nodes: tuple[Node, ...]


@dataclass(frozen=True)
class ClusterChanges:
    """Numbers of seats that have come and gone, and nodes that were inspected, since this was last asked."""

    joined: tuple[int, ...] = ()
    lost: tuple[int, ...] = ()
    nodes: tuple[Node, ...] = ()


@dataclass
class _NodeState:
    """A node, from the moment that it is seen."""

    host: str
    cpus: int
    inspection: Any
    node: Node | None = None
    starting: dict[Any, int] = field(default_factory=dict)
    seats: list[int] = field(default_factory=list)


class RayCluster:
    """Use as a context manager. Without an address a Ray is started on this machine, and ended again."""

    def __init__(
        self,
        tasks: Sequence[Task],
        levels: tuple[Level, ...] = PUBLISHABLE,
        address: str | None = None,
        most: int | None = None,
    ) -> None:
        """At most ``most`` seats."""
        self._question = NodeRequirements(tuple(tasks), levels)
        self._address, self._most = address, most
        self._namespace = f"evopolicygym-{secrets.token_hex(8)}"
        self._guests: dict[str, _NodeState] = {}
        self._actors: list[Any] = []  # kept: a seat ends when nobody here holds it
        self._stack = ExitStack()
        self._token_file: str | None = None
        self.scratch: Path | None = None  # a folder that goes with a Ray of our own, however we end

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            given = self._address
            if given is None:
                steward = stack.enter_context(LocalRayCluster(self._most or 1))
                self._address, self._token_file = steward.address(), str(steward.token_file)
                self.scratch = steward.folder
            self._ray = connect(self._address or "auto", self._namespace, self._token_file)
            stack.callback(disconnect)
            self._address = self._ray.get_runtime_context().gcs_address
            if given is not None:
                require_token(self._address)
            stack.callback(self._dismiss)
            self._await_seats()
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *exception: object) -> None:
        self._stack.close()

    @property
    def total(self) -> int:
        """Seats are numbered from 0 to this, those that are gone included."""
        return len(self._actors)

    @property
    def seats(self) -> tuple[int, ...]:
        return tuple(seat for guest in self._guests.values() for seat in guest.seats)

    @property
    def nodes(self) -> tuple[Node, ...]:
        """All that are there and were inspected."""
        return tuple(guest.node for guest in self._guests.values() if guest.node)

    @property
    def whereabouts(self) -> ClusterInfo:
        assert self._address
        return ClusterInfo(self._address, self._namespace, self._token_file, self.nodes)

    def poll(self) -> ClusterChanges:
        """Never waits for a node."""
        present = {one["NodeID"]: one for one in self._ray.nodes() if one["Alive"]}
        lost = [seat for name in self._guests.keys() - present for seat in self._guests.pop(name).seats]
        for name in present.keys() - self._guests:
            self._guests[name] = self._meet(name, present[name])
        nodes = [self._admit(name, guest) for name, guest in self._guests.items() if self._is_inspected(guest)]
        joined = [seat for guest in self._guests.values() for seat in self._seated(guest)]
        return ClusterChanges(tuple(joined), tuple(lost), tuple(nodes))

    def _await_seats(self) -> None:
        """Until every node that is there has its seats, or all patience is gone."""
        deadline = time.monotonic() + START_S
        while not self._guests or any(one.node is None or one.starting for one in self._guests.values()):
            if time.monotonic() > deadline:
                break
            self.poll()
            time.sleep(POLL_S)
        if not self.seats:
            reasons = [f"\n  {node.host}: {node.refused or 'its cores are taken'}" for node in self.nodes]
            raise UserError(
                f"no node of the cluster can play{''.join(reasons)}",
                "`evopolicygym docs cluster` says what nodes need.",
            )

    def _dismiss(self) -> None:
        """Seats that have the time remove what they have made."""
        left = [actor.leave.remote() for actor in self._actors]
        if left:
            self._ray.wait(left, num_returns=len(left), timeout=LEAVE_S)

    def _meet(self, name: str, facts: dict[str, Any]) -> _NodeState:
        inspection = self._on(name, self._ray.remote(inspect_node), num_cpus=0, max_retries=0).remote(
            encode(self._question)
        )
        return _NodeState(facts["NodeManagerHostname"], int(facts["Resources"].get("CPU", 0)), inspection)

    def _is_inspected(self, guest: _NodeState) -> bool:
        return guest.node is None and bool(self._ray.wait([guest.inspection], timeout=0)[0])

    def _admit(self, name: str, guest: _NodeState) -> Node:
        """Seats for a node that passes; the reason for one that does not."""
        try:
            report = decode(self._ray.get(guest.inspection), NodeReport)
            refused, level, cores = reason_to_refuse(self._question, report), report.level or Level.NONE, report.cores
        except self._ray.exceptions.RayError as error:
            refused, level, cores = f"it cannot be inspected: {str(error).strip().splitlines()[-1]}", Level.NONE, 0
        room = guest.cpus if self._most is None else min(guest.cpus, self._most - len(self._actors))
        count = 0 if refused else min(cores, room)
        guest.node = Node(name[:8], guest.host, "" if refused else level, count, refused)
        guest.starting = dict(self._seat(name, guest.node, number) for number in range(count))
        return guest.node

    def _seat(self, name: str, node: Node, number: int) -> tuple[Any, int]:
        slot = len(self._actors)
        actor = self._on(
            name, self._ray.remote(RemoteWorker), num_cpus=1, max_restarts=-1, name=worker_name(slot)
        ).remote(number, encode(node))  # fmt: skip
        self._actors.append(actor)
        return actor.ready.remote(), slot

    def _seated(self, guest: _NodeState) -> list[int]:
        """Seats of this node that have started since."""
        started = (
            self._ray.wait([*guest.starting], num_returns=len(guest.starting), timeout=0)[0] if guest.starting else []
        )
        seats = [guest.starting.pop(reference) for reference in started]
        guest.seats += seats
        return seats

    def _on(self, node_id: str, remote: Any, **options: Any) -> Any:
        """There or nowhere."""
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        return remote.options(scheduling_strategy=NodeAffinitySchedulingStrategy(node_id, soft=False), **options)


def worker_name(slot: int) -> str:
    return f"seat-{slot}"


LOOK_S: Final = 2.0


class ClusterSlots:
    waitable: Sequence[Waitable] = ()
    first_core = 0

    def __init__(self, fleet: RayCluster) -> None:
        self._fleet, self._held, self._wanted = fleet, set[int](), 0
        self._looked = time.monotonic()

    @property
    def total(self) -> int:
        return len(self._fleet.seats)

    @property
    def at_once(self) -> int:
        return self.total

    def want(self, count: int, urgent: bool) -> None:
        self._wanted = count

    def granted(self) -> list[int]:
        if time.monotonic() - self._looked > LOOK_S:
            self._fleet.poll()
            self._looked = time.monotonic()
        seats = self._fleet.seats
        free = [seat for seat in seats if seat not in self._held]
        new = free[: max(0, self._wanted - (len(seats) - len(free)))]
        self._held.update(new)
        return new

    def give_back(self, slot: int) -> None:
        self._held.discard(slot)
