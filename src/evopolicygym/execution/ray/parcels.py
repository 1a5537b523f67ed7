"""Folders as bytes: checkpoints on their way to a node, recordings on their way back."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from evopolicygym.errors import Fault
from evopolicygym.execution.ray.messages import Files, Parcel, decode, encode
from evopolicygym.sandbox.checkpoints import Checkpoint, CheckpointStore, remove_tree


def pack(folder: Path) -> Files:
    """Every file, and with a slash at its end every folder, which may be empty."""
    found: list[tuple[str, bytes]] = []
    for parent, folders, files in os.walk(folder):
        place = Path(parent)
        found += [(f"{(place / name).relative_to(folder)}/", b"") for name in folders]
        found += [(str((place / name).relative_to(folder)), (place / name).read_bytes()) for name in files]
    return tuple(sorted(found))


def unpack(files: Files, folder: Path) -> None:
    """Below ``folder``, and nowhere else."""
    for name, data in files:
        target = folder / name
        if not target.resolve().is_relative_to(folder.resolve()):
            raise Fault(f"{name!r} does not lie in the folder that it was sent for")
        if name.endswith("/"):
            target.mkdir(parents=True, exist_ok=True)
        else:
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(data)


def parcel(folder: Path) -> bytes:
    return encode(Parcel(pack(folder)))


def receive(data: bytes, expected: Checkpoint, store: CheckpointStore) -> None:
    """Into the store, hashed again on arrival."""
    store.root.mkdir(parents=True, exist_ok=True)
    arrived = Path(tempfile.mkdtemp(prefix=".arrived-", dir=store.root))
    try:
        unpack(decode(data, Parcel).files, arrived)
        found = store.snapshot(arrived, is_stored=True)
    finally:
        remove_tree(arrived)
    if found != expected:
        remove_tree(store.folder(found))
        raise Fault(f"checkpoint {expected.hash[:16]} arrived as {found.hash[:16]}")
