"""How many episodes go into one call: enough that calls cost little, few enough that no seat idles at the end."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, replace
from math import ceil
from typing import Final

from evopolicygym.execution.records import Episode
from evopolicygym.sandbox.checkpoints import Checkpoint

CALL_S: Final = 0.3  # of play in one call
SHARES: Final = 2  # calls for each seat that what is left is divided into


@dataclass(frozen=True)
class Batch:
    """What one call does: play episodes of a checkpoint, load it, or neither. ``losses`` counts the calls that were
    lost with their seat."""

    checkpoint: Checkpoint | None = None
    episodes: tuple[Episode, ...] = ()
    losses: int = 0

    def again(self) -> list[Batch]:
        """Each episode by itself: should one of them be what takes seats down, the others are not blamed for it."""
        lost = replace(self, losses=self.losses + 1)
        return [replace(lost, episodes=(episode,)) for episode in self.episodes] or [lost]


class Batches:
    """Cuts a stream of episodes as it goes. Until a call has told how long episodes take, they go one by one."""

    def __init__(self, episodes: Iterable[Episode] = (), first: Iterable[Batch] = ()) -> None:
        self._source, self._ahead, self._first = iter(episodes), deque[Episode](), deque(first)
        self._is_dry, self._episode_s = episodes == (), CALL_S

    @property
    def is_empty(self) -> bool:
        """Known to be: as long as nobody asks, no episode is drawn."""
        return self._is_dry and not self._ahead and not self._first

    def next(self, seats: int) -> Batch | None:
        if self._first:
            return self._first.popleft()
        most = max(1, int(CALL_S / self._episode_s))
        self._look_ahead(most * seats * SHARES)
        return self._cut(min(most, ceil(len(self._ahead) / (seats * SHARES)))) if self._ahead else None

    def back(self, batches: Iterable[Batch]) -> None:
        """To be done before all others."""
        self._first.extend(batches)

    def learn(self, episodes: int, seconds: float) -> None:
        self._episode_s = max(seconds / episodes, 1e-4) if episodes else self._episode_s

    def _cut(self, size: int) -> Batch:
        checkpoint, taken = self._ahead[0].checkpoint, list[Episode]()
        while self._ahead and len(taken) < size and self._ahead[0].checkpoint == checkpoint:
            taken.append(self._ahead.popleft())
        return Batch(checkpoint, tuple(taken))

    def _look_ahead(self, count: int) -> None:
        while not self._is_dry and len(self._ahead) < count:
            episode = next(self._source, None)
            self._is_dry = episode is None
            if episode is not None:
                self._ahead.append(episode)
