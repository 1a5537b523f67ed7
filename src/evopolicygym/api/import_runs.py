"""Import runs of the public reference code."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from evopolicygym.runs.import_runs import ImportResult

PathLike = str | os.PathLike[str]


def import_runs(path: PathLike, folder: PathLike) -> list[ImportResult]:
    """Import runs that the public reference code (versions 0.1 and 0.3) has played, for `load_runs`, `analyze`,
    `leaderboard` and `write_report`.

    Args:
        path: A run folder of that code, or a folder that holds some at any depth. Nothing in it is changed.
        folder: Where the imported runs are written, a folder each. A run that is there already is left as it is.

    Returns:
        One result for each folder: ``target`` is None where ``reason`` says why it was refused.

    Raises:
        UserError: There is no run at or below ``path``.

    >>> import evopolicygym
    >>> evopolicygym.import_runs("no such folder", "imported")
    Traceback (most recent call last):
    evopolicygym.errors.UserError: no such folder is not a folder
    Name a run folder, or a folder that holds some.
    """
    from evopolicygym.runs.import_runs import import_folders

    return import_folders(Path(path), Path(folder))
