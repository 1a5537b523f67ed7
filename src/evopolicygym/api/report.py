"""Write runs as one self-contained page."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evopolicygym.api.results import RunsLike
from evopolicygym.api.statistics import anchor_files, curve_records, folders_of
from evopolicygym.errors import UserError
from evopolicygym.reference import CURRENT_SCALE

if TYPE_CHECKING:
    from evopolicygym.analysis.loading import Skipped

PathLike = str | os.PathLike[str]


@dataclass(frozen=True)
class Report:
    """A page that was written: its file, the number of runs on it, the names of its figures, and the folders that could
    not be read."""

    page: Path
    runs: int
    figures: tuple[str, ...]
    skipped: tuple[Skipped, ...]

    def as_dict(self) -> dict[str, Any]:
        """Return everything as plain values, as `report --json` prints it."""
        skipped = [asdict(skip) for skip in self.skipped]
        return {"page": str(self.page), "runs": self.runs, "figures": list(self.figures), "skipped": skipped}


def write_report(
    runs: RunsLike | Iterable[PathLike],
    output: PathLike = "report.html",
    *,
    figures: PathLike | None = None,
    paper: bool = False,
    anchors: Sequence[PathLike] = (),
    scale: int = CURRENT_SCALE,
    labels: Mapping[str, str] | None = None,
    curves: Sequence[PathLike] = (),
) -> Report:
    """Write one page with leaderboard, curves, timelines, edits and diffs of runs. It needs no server and no network.

    Args:
        runs: A path, several paths, ``Runs``, or several ``Run``. Their folders are read again.
        output: The HTML file to write.
        figures: A folder for each figure as SVG and PDF.
        paper: Add the published rows of the paper.
        anchors: Files with anchors, beside those that `task anchors` keeps and those that ship.
        scale: Version of the scale of normalised scores; 1 repeats older tables.
        labels: New names of entrants, by the names that the page shows without them.
        curves: Files or folders of learning curves, beside those that ship, for exchange rates.

    Raises:
        UserError: There is no run below a path, no such scale, the file cannot be written, or anchors fit none of the
            runs.

    >>> import evopolicygym, pathlib, tempfile
    >>> page = pathlib.Path(tempfile.mkdtemp(), "report.html")
    >>> made = evopolicygym.write_report("examples/runs/acrobot__tuner__s0", page)
    >>> made.runs, page.read_text().startswith("<!doctype html>")
    (1, True)
    """
    from evopolicygym.report.page import write_page
    from evopolicygym.report.report_data import collect_report

    page, drawings = Path(output), None if figures is None else Path(figures)
    if not page.parent.is_dir():
        raise UserError(f"there is no folder {page.parent}", "Create it, or name another with -o (output=).")
    if page.is_dir():
        raise UserError(f"{page} is a folder", "Name a file with -o (output=).")
    if drawings and drawings.exists() and not drawings.is_dir():
        raise UserError(f"{drawings} is a file", "Name a folder with --figures (figures=).")
    trained = curve_records(curves)
    data = collect_report(
        folders_of(runs),
        page.parent,
        lambda records: anchor_files(anchors, records),
        paper,
        scale,
        labels or {},
        trained,
    )
    try:
        drawn = write_page(data, page)
    except OSError as error:
        raise UserError(
            f"{page} cannot be written: {error.strerror}", "Name another file with -o (output=)."
        ) from error
    if drawings:
        from evopolicygym.report.pdf import write_figures  # needs matplotlib

        write_figures(drawn, drawings)
    return Report(page, len(data.runs), tuple(figure.name for figure in drawn), data.skipped)
