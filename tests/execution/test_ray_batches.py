"""Episodes are divided into calls: each exactly once, in large calls first and small ones at the end."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evopolicygym.errors import Fault
from evopolicygym.execution.ray import messages
from evopolicygym.execution.ray.dispatch import CALL_S, SHARES, Batch, BatchQueue
from evopolicygym.execution.records import Episode
from evopolicygym.sandbox.checkpoints import Checkpoint, CheckpointStore
from evopolicygym.tasks.splits import Case, Split

CHECKPOINTS = [Checkpoint(name * 64, 1, 1, True, False) for name in "ab"]


def episodes(count: int, switch: int = 10**9) -> list[Episode]:
    return [Episode(i, CHECKPOINTS[i >= switch], Case("t", Split.TRAIN, i, i)) for i in range(count)]


def drain(batches: BatchQueue, workers: int, episode_s: float) -> list[Batch]:
    found = []
    while batch := batches.next(workers):
        found.append(batch)
        batches.learn(len(batch.episodes), episode_s * len(batch.episodes))
    assert batches.is_empty
    return found


@given(st.integers(0, 200), st.integers(0, 200), st.integers(1, 9), st.floats(1e-5, 10))
def test_every_episode_once_and_in_order_and_one_checkpoint_a_call(count, switch, workers, episode_s):
    found = drain(BatchQueue(iter(episodes(count, switch))), workers, episode_s)
    assert [episode.number for batch in found for episode in batch.episodes] == list(range(count))
    assert all({episode.checkpoint for episode in batch.episodes} == {batch.checkpoint} for batch in found)


def test_a_call_is_as_long_as_it_should_be_but_short_at_the_end():
    sizes = [len(batch.episodes) for batch in drain(BatchQueue(iter(episodes(500))), 2, CALL_S / 20)]
    assert sizes[0] == 1 and max(sizes) == 20 and sizes[-1] == 1
    assert sizes[1:] == sorted(sizes[1:], reverse=True)


def test_no_more_is_drawn_than_is_needed_to_cut():
    source = iter(episodes(500))
    BatchQueue(source).next(3)
    assert next(source).number == 3 * SHARES


def test_lost_episodes_are_repeated_first_and_one_by_one():
    batches = BatchQueue(episodes(40))
    lost = Batch(CHECKPOINTS[0], tuple(episodes(3)))
    batches.put_first(lost.split_for_retry())
    again = [batches.next(2) for _ in range(3)]
    assert [(batch.losses, [episode.number for episode in batch.episodes]) for batch in again if batch] == [
        (1, [0]),
        (1, [1]),
        (1, [2]),
    ]


def test_received_checkpoints_are_hashed_again(tmp_path):
    store, other = CheckpointStore(tmp_path / "store"), CheckpointStore(tmp_path / "other")
    (tmp_path / "policy" / "deep" / "er").mkdir(parents=True)
    (tmp_path / "policy" / "policy.py").write_text("pass")
    checkpoint = store.snapshot(tmp_path / "policy")
    packed = messages.pack_checkpoint(store.folder(checkpoint))
    messages.unpack_checkpoint(packed, checkpoint, other)
    assert (other.folder(checkpoint) / "deep" / "er").is_dir()
    with pytest.raises(Fault, match="arrived as"):
        messages.unpack_checkpoint(packed.replace(b"pass", b"fail"), checkpoint, CheckpointStore(tmp_path / "third"))
    assert not list((tmp_path / "third").iterdir())


@pytest.mark.parametrize("name", ["../out", "/etc/out", "a/../../out"])
def test_nothing_is_written_beside_its_folder(name, tmp_path: Path):
    with pytest.raises(Fault, match="does not lie"):
        messages.unpack_files(((name, b"x"),), tmp_path / "in")
    assert not (tmp_path / "out").exists()
