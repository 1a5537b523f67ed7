"""Seats, from a run's side: found by name, sent what they need, stopped."""

from __future__ import annotations

from collections import OrderedDict
from pathlib import Path
from typing import Any, Final

from evopolicygym.execution.ray import parcels
from evopolicygym.execution.ray.batches import Batch
from evopolicygym.execution.ray.fleet import seat_name
from evopolicygym.execution.ray.messages import CHECKPOINT, SCENE, Order, Scene, encode
from evopolicygym.sandbox.checkpoints import Checkpoint

PARCELS: Final = 4  # kept in the object store: one is enough for most, and all nodes fetch it from there


class SeatGone(Exception):
    """It ended for good."""


class Seats:
    def __init__(self, ray: Any, namespace: str, scene: Scene, checkpoints: Path) -> None:
        self._ray, self._namespace, self._scene, self._checkpoints = ray, namespace, scene, checkpoints
        self._found: dict[int, Any] = {}
        self._parcels: OrderedDict[str, Any] = OrderedDict()

    def ask(self, slot: int, batch: Batch, needs: tuple[str, ...] = ()) -> Any:
        """What seats need they say: most have it already."""
        order = encode(Order(self._scene.key, batch.checkpoint, batch.episodes))
        scene = encode(self._scene) if SCENE in needs else None
        parcel = self._parcel(batch.checkpoint) if CHECKPOINT in needs and batch.checkpoint else None
        return self._seat(slot).do.remote(order, scene, parcel)

    def recovered(self, slot: int) -> Any:
        """Ends when the seat has been started again by Ray, or is known to be gone."""
        return self._seat(slot).ready.options(max_task_retries=-1).remote()

    def stop(self, slot: int) -> None:
        """What it plays is for nobody. Ray starts it again."""
        try:
            self._ray.kill(self._seat(slot), no_restart=False)
        except SeatGone:
            pass

    def _seat(self, slot: int) -> Any:
        if slot not in self._found:
            try:
                self._found[slot] = self._ray.get_actor(seat_name(slot), self._namespace)
            except ValueError as error:
                raise SeatGone(f"seat {slot} is gone") from error
        return self._found[slot]

    def _parcel(self, checkpoint: Checkpoint) -> Any:
        if checkpoint.hash not in self._parcels:
            while len(self._parcels) >= PARCELS:
                self._parcels.popitem(last=False)
            parcel = parcels.parcel(self._checkpoints / checkpoint.hash)
            self._parcels[checkpoint.hash] = self._ray.put(parcel)
        return self._parcels[checkpoint.hash]
