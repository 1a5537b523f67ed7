"""Leaderboards, comparisons and diagnostics of runs: the objects behind `--json` of the commands."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evopolicygym.api.results import Run, Runs, RunsLike, gather, refuse_copies
from evopolicygym.errors import UserError

if TYPE_CHECKING:
    import pandas

    from evopolicygym.analysis.analyze import EntrantSummary
    from evopolicygym.analysis.compare import ComparedEntrant, PairComparison
    from evopolicygym.analysis.diagnostics import Diagnosis
    from evopolicygym.analysis.knowledge_gap import KnowledgeGap
    from evopolicygym.analysis.leaderboard.build import Leaderboard
    from evopolicygym.analysis.loading import Skipped
    from evopolicygym.analysis.reproduce import Reproduction
    from evopolicygym.reference.anchors import AnchorFile
    from evopolicygym.run_record import RunRecord


@dataclass(frozen=True)
class Comparison:
    """Entrants against each other. ``pairs`` hold the paired differences; ``sides`` say who was compared, and which of
    their runs have no score; ``knowledge_gaps`` are those of entrants with runs on plain and on disguised tasks;
    ``skipped`` are folders that could not be read."""

    pairs: tuple[PairComparison, ...]
    sides: tuple[ComparedEntrant, ...]
    knowledge_gaps: tuple[KnowledgeGap, ...]
    skipped: tuple[Skipped, ...]

    def as_dict(self) -> dict[str, Any]:
        """Return everything as plain values, as `compare --json` prints it."""
        sides = [{"label": side.label, "missing": side.missing, "apart": side.apart} for side in self.sides]
        skipped = [asdict(skip) for skip in self.skipped]
        gaps = [asdict(gap) for gap in self.knowledge_gaps]
        pairs = [asdict(pair) for pair in self.pairs]
        return {"pairs": pairs, "sides": sides, "knowledge_gaps": gaps, "skipped": skipped}


@dataclass(frozen=True)
class Analysis:
    """How finished runs went (docs/diagnostics.md). ``runs`` are their diagnoses one by one, ``groups`` the same put
    together by conditions, entrant and kind of task; ``skipped`` are folders that could not be analysed."""

    runs: tuple[Diagnosis, ...]
    groups: tuple[EntrantSummary, ...]
    skipped: tuple[Skipped, ...]

    def rows(self) -> list[dict[str, Any]]:
        """Return one flat row of plain values per run, as `analyze --csv` prints it."""
        from evopolicygym.analysis.analyze import flat_row

        return [flat_row(run) for run in self.runs]

    def to_pandas(self) -> pandas.DataFrame:
        """Return ``rows`` as a data frame."""
        import pandas

        return pandas.DataFrame(self.rows())

    def as_dict(self) -> dict[str, Any]:
        """Return everything as plain values, as `analyze --json` prints it."""
        return {
            "runs": [run.as_dict() for run in self.runs],
            "groups": [group.as_dict() for group in self.groups],
            "skipped": [asdict(skip) for skip in self.skipped],
        }


def leaderboard(runs: RunsLike, *, paper: bool = False, anchors: Sequence[str | os.PathLike[str]] = ()) -> Leaderboard:
    """Return tables of who is how good on each task, family and collection, with intervals.

    Only runs with the same comparable_id share a table; others get a board of their own that says what differs.

    Args:
        runs: A path, ``Runs``, or several ``Run``.
        paper: Add the published rows of the paper.
        anchors: Files with anchors, beside those that `task anchors` keeps and those that ship.

    Returns:
        A ``Leaderboard``: its ``boards`` hold ``tasks``, ``aggregates`` and ``costs``; ``dataclasses.asdict`` makes
        plain values of it, as `leaderboard --json` prints them.

    Raises:
        UserError: There is no run below the path, or a file of anchors cannot be read or fits none of the runs.

    >>> import evopolicygym
    >>> made = evopolicygym.leaderboard("examples/runs")
    >>> [table.task for table in made.boards[0].tasks]
    ['core16/acrobot', 'core16/mountain-car-continuous']
    >>> made.boards[0].tasks[0].rows[0].rank
    1
    """
    from evopolicygym.analysis.leaderboard import build

    records = [run.record for run in gather(runs)]
    return build.leaderboard(records, anchor_files(anchors, records), paper)


def anchor_files(paths: Sequence[str | os.PathLike[str]], records: Sequence[RunRecord]) -> list[AnchorFile]:
    """Return the anchors to look in: the named files, those that the user measured, and those that ship.

    Raises:
        UserError: A file cannot be read, is not one of anchors, or is named and fits none of the runs.
    """
    from evopolicygym.analysis.leaderboard.task_results import NoAnchors, fitting_anchors
    from evopolicygym.reference.anchors import load, own_anchors, stored_anchors

    named = {Path(path): load(Path(path)) for path in paths}
    for path, file in named.items():
        fits = [(run.task.id, fitting_anchors([file], run)) for run in records]
        if fits and all(isinstance(fit, NoAnchors) for _, fit in fits):
            tasks = f"it has {_listed(file.tasks)}, the runs are of {_listed({task for task, _ in fits})}"
            reasons = [fit.reason for task, fit in fits if task in file.tasks and isinstance(fit, NoAnchors)]
            raise UserError(
                f"the anchors in {path} fit none of the runs: {reasons[0] if reasons else tasks}",
                "Leave the file out, or measure anchors for the cases and rules of these runs: "
                "`evopolicygym task anchors TASK`.",
            )
    return [*named.values(), *own_anchors(), stored_anchors()]


def _listed(names: Iterable[str]) -> str:
    listed = sorted(names)
    return ", ".join(listed[:4]) + (f" and {len(listed) - 4} more" if len(listed) > 4 else "")


def compare(*runs: RunsLike, effect: float = 0.05) -> Comparison:
    """Compare entrants on the cases that they share: paired differences with intervals, per task and over tasks.

    Args:
        runs: One argument for each side: a path, ``Runs``, or several ``Run``. Where one holds runs of several
            entrants, each of them is a side. One entrant is enough if it has runs on plain and on disguised tasks:
            its knowledge gap is computed.
        effect: The smallest difference of interest, as a share of the score scale: what numbers of runs are planned
            for.

    Raises:
        UserError: There are fewer than two sides and no knowledge gap, there is no run below a path, or a run or a copy
            of it is on two sides.

    >>> import evopolicygym
    >>> made = evopolicygym.compare("examples/runs")
    >>> len(made.sides), len(made.pairs)
    (3, 3)
    """
    from evopolicygym.analysis import compare as analysis
    from evopolicygym.analysis.compare import compared_entrants
    from evopolicygym.analysis.knowledge_gap import knowledge_gaps
    from evopolicygym.analysis.leaderboard.task_results import with_own_scales

    gathered = [gather(side) for side in runs]
    refuse_copies(run for side in gathered for run in side)
    skipped = tuple(skip for side in gathered for skip in side.skipped)
    records = _by_label(gathered)
    files = anchor_files((), ())
    records = {label: with_own_scales(side, files) for label, side in records.items()}
    entrants, gaps = compared_entrants(records), knowledge_gaps(run for side in records.values() for run in side)
    if len(entrants) < 2 and not gaps:
        left_out = "".join(f"\n{skip.path} is left out: {skip.why}" for skip in skipped)
        raise UserError(
            f"there is one side only{left_out}",
            "Name two folders, or one that holds runs of two entrants, or of one on plain and disguised tasks.",
        )
    return Comparison(tuple(analysis.compare(entrants, effect)), tuple(entrants), gaps, skipped)


def analyze(runs: RunsLike | Iterable[str | os.PathLike[str]]) -> Analysis:
    """Return how finished runs went: edits and hits, curves, budget, structure.

    Args:
        runs: A path, several paths, ``Runs``, or several ``Run``. Their folders are read again: the diagnostics need
            the code and the transcripts, not the record alone.

    Raises:
        UserError: There is no run below a path.

    >>> import evopolicygym
    >>> made = evopolicygym.analyze("examples/runs/acrobot__tuner__s0")
    >>> made.to_pandas()["outcome"].tolist()
    ['scored']
    """
    from evopolicygym.analysis.analyze import analyze_runs, summarize_entrants

    result = analyze_runs(folders_of(runs), anchor_files((), ()))
    return Analysis(result.runs, tuple(summarize_entrants(result.runs)), result.skipped)


def reproduce(numbers: str | os.PathLike[str] | None = None) -> Reproduction:
    """Recompute Tables 2 and 8 of the paper from its Table 1, and the percentages of Table 4 from its counts.

    Args:
        numbers: A TOML or JSON file that replaces the stored numbers of the paper, or some of their tables.

    Returns:
        A ``Reproduction``: the tables, the cells that are ``wrong`` or ``altered``, and whether it ``holds``.

    Raises:
        UserError: The file cannot be read, or is not a document of these tables.

    >>> import evopolicygym
    >>> made = evopolicygym.reproduce()
    >>> made.holds, len(made.wrong)
    (True, 0)
    """
    from evopolicygym.analysis import reproduce as tables
    from evopolicygym.reference import paper

    given = paper.document() if numbers is None else paper.load(Path(numbers))
    return tables.reproduce(given, paper.document())


def folders_of(runs: RunsLike | Iterable[str | os.PathLike[str]]) -> list[Path]:
    """Return the paths of runs in any form that the API takes."""
    if isinstance(runs, str | os.PathLike):
        return [Path(runs)]
    listed = [runs] if isinstance(runs, Run) else list(runs)
    return [run.folder if isinstance(run, Run) else Path(run) for run in listed]


def _by_label(gathered: Sequence[Runs]) -> dict[str, list[Any]]:
    """Records by the path of their side, which must differ."""
    records: dict[str, list[Any]] = {}
    for number, side in enumerate(gathered, 1):
        label = side.path if side.path not in records else f"{side.path} #{number}"
        records[label] = [run.record for run in side]
    return records
