"""Nodes: the machines of a cluster that play episodes, or may not."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Node:
    """``id`` is the cluster's name for it. ``level``: how policies are isolated there. One that is ``refused``, in
    words, has no seats."""

    id: str
    host: str
    level: str
    seats: int
    refused: str = ""
