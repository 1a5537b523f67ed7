"""The stored anchors: trivial policies on the paper's held-out cases 0-31."""

from __future__ import annotations

from functools import cache
from importlib import resources

from evopolicygym.records.anchors import AnchorFile


@cache
def stored() -> AnchorFile:
    return AnchorFile.model_validate_json(
        (resources.files("evopolicygym.reference") / "anchors-paper.json").read_bytes()
    )
