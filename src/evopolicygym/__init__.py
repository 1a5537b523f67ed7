"""EvoPolicyGym measures how coding agents improve executable policies."""

from __future__ import annotations

from os import PathLike
from typing import Any

__version__ = "0.1.0"
__all__ = ["__version__", "load_runs"]


def load_runs(path: str | PathLike[str]) -> list[dict[str, Any]]:
    """One flat row per finished run in ``path`` or below it, for ``pandas.DataFrame``: what was scored and how it went.
    Folders that cannot be read are left out with a warning. docs/diagnostics.md says what the columns mean."""
    from evopolicygym.analysis import rows  # here, so that importing the package stays light

    return rows.load_runs(path)
