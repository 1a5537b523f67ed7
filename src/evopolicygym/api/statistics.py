"""Leaderboards, comparisons and diagnostics of runs: the objects behind `--json` of the commands."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evopolicygym.api.results import Run, Runs, RunsLike, gather, refuse_copies
from evopolicygym.errors import UserError
from evopolicygym.printable import one_line
from evopolicygym.reference import CURRENT_SCALE

if TYPE_CHECKING:
    import pandas

    from evopolicygym.analysis.analyze import EntrantSummary
    from evopolicygym.analysis.compare import ComparedEntrant, PairComparison
    from evopolicygym.analysis.diagnostics import Diagnosis
    from evopolicygym.analysis.entrants import Entrant
    from evopolicygym.analysis.knowledge_gap import KnowledgeGap
    from evopolicygym.analysis.leaderboard.build import Leaderboard
    from evopolicygym.analysis.loading import Skipped
    from evopolicygym.analysis.provenance import Provenance
    from evopolicygym.analysis.reproduce import Reproduction
    from evopolicygym.reference.anchors import AnchorFile
    from evopolicygym.reference.curves import CurveRecord
    from evopolicygym.run_record import RunRecord

MAX_SHOWN = 200  # characters of a name in a message


@dataclass(frozen=True)
class Comparison:
    """Entrants compared with each other. ``pairs`` hold the paired differences; ``sides`` list the entrants, and their
    runs without a score; ``knowledge_gaps`` are those of entrants with runs on plain and on disguised tasks;
    ``entrants`` has the agent behind each name; ``skipped`` are folders that could not be read. ``scale_version``: the
    scale of normalised scores."""

    pairs: tuple[PairComparison, ...]
    sides: tuple[ComparedEntrant, ...]
    knowledge_gaps: tuple[KnowledgeGap, ...]
    entrants: tuple[Entrant, ...]
    provenance: Provenance
    skipped: tuple[Skipped, ...]
    scale_version: int

    @property
    def complete(self) -> bool:
        """Whether nothing is missing: every folder could be read, every run has a score, and every task of a pair was
        compared, or is in a knowledge gap."""
        from evopolicygym.analysis.knowledge_gap import is_in_gap

        not_compared = [(pair, task) for pair in self.pairs for task in pair.not_compared]
        is_compared = all(is_in_gap(self.knowledge_gaps, pair.first, pair.second, task) for pair, task in not_compared)
        return is_compared and not self.skipped and not any(side.missing for side in self.sides)

    def as_dict(self) -> dict[str, Any]:
        """Return everything as plain values, as `compare --json` prints it."""
        sides = [{"label": side.label, "missing": side.missing, "apart": side.apart} for side in self.sides]
        skipped = [asdict(skip) for skip in self.skipped]
        gaps = [asdict(gap) for gap in self.knowledge_gaps]
        pairs = [asdict(pair) for pair in self.pairs]
        about = {"entrants": [asdict(entrant) for entrant in self.entrants], "provenance": asdict(self.provenance)}
        shared = {"scale_version": self.scale_version, "skipped": skipped}
        return {"pairs": pairs, "sides": sides, "knowledge_gaps": gaps, **about, **shared}


@dataclass(frozen=True)
class Analysis:
    """Diagnoses of finished runs (docs/diagnostics.md). ``runs`` has one for each run, ``groups`` has them by
    conditions, entrant and kind of task; ``origins`` says where each run comes from, and ``provenance`` all of them;
    ``entrants`` has the agent behind each name; ``skipped`` are folders that could not be analysed."""

    runs: tuple[Diagnosis, ...]
    origins: tuple[Provenance, ...]
    groups: tuple[EntrantSummary, ...]
    entrants: tuple[Entrant, ...]
    provenance: Provenance
    skipped: tuple[Skipped, ...]

    def rows(self) -> list[dict[str, Any]]:
        """Return one flat row of plain values per run, as `analyze --csv` prints it."""
        from evopolicygym.analysis.analyze import flat_row

        return [flat_row(run) | origin.row() for run, origin in zip(self.runs, self.origins, strict=True)]

    def to_pandas(self) -> pandas.DataFrame:
        """Return ``rows`` as a data frame."""
        import pandas

        return pandas.DataFrame(self.rows())

    def as_dict(self) -> dict[str, Any]:
        """Return everything as plain values, as `analyze --json` prints it."""
        return {
            "runs": [run.as_dict() for run in self.runs],
            "groups": [group.as_dict() for group in self.groups],
            "entrants": [asdict(entrant) for entrant in self.entrants],
            "provenance": asdict(self.provenance),
            "skipped": [asdict(skip) for skip in self.skipped],
            "scale_version": CURRENT_SCALE,
        }


def leaderboard(
    runs: RunsLike,
    *,
    paper: bool = False,
    anchors: Sequence[str | os.PathLike[str]] = (),
    scale: int = CURRENT_SCALE,
    labels: Mapping[str, str] | None = None,
    curves: Sequence[str | os.PathLike[str]] = (),
) -> Leaderboard:
    """Return tables of who is how good on each task, family and collection, with intervals.

    Only runs with the same comparable_id share a table; others get a board of their own that says what differs.

    Args:
        runs: A path, ``Runs``, or several ``Run``.
        paper: Add the published rows of the paper.
        anchors: Files with anchors, beside those that `task anchors` keeps and those that ship.
        scale: Version of the scale of normalised scores; 1 repeats older tables.
        labels: New names of entrants, by the names that the tables show without them.
        curves: Files or folders of learning curves that ``baseline_curve`` wrote, beside those that ship, for exchange
            rates.

    Returns:
        A ``Leaderboard``: its ``boards`` hold ``tasks``, ``aggregates``, ``costs`` and ``exchange_rates``;
        ``dataclasses.asdict`` makes plain values of it, as `leaderboard --json` prints them.

    Raises:
        UserError: There is no run below the path, no such scale, a file of anchors cannot be read or fits none of the
            runs, or a label is for a name that no entrant has.

    >>> import evopolicygym
    >>> made = evopolicygym.leaderboard("examples/runs")
    >>> [table.task for table in made.boards[0].tasks]
    ['core16/acrobot', 'core16/mountain-car-continuous']
    >>> made.boards[0].tasks[0].rows[0].rank
    1
    """
    from evopolicygym.analysis.leaderboard import build

    records = [run.record for run in gather(runs)]
    files = anchor_files(anchors, records)
    return build.leaderboard(records, files, paper, scale=scale, labels=labels or {}, curves=curve_records(curves))


def curve_records(paths: Sequence[str | os.PathLike[str]]) -> list[CurveRecord]:
    """Return the learning curves of the named files and folders, and those that ship.

    Raises:
        UserError: A file is not a learning curve, or there is none below a path.
    """
    from evopolicygym.reference.curves import SUFFIX, load_curves, stored_curves

    named = [(path, load_curves([Path(path)])) for path in paths]
    if empty := [path for path, curves in named if not curves]:
        raise UserError(f"there is no learning curve (*{SUFFIX}) at {os.fspath(empty[0])}", "Name another path.")
    return [*(curve for _, curves in named for curve in curves), *stored_curves()]


def anchor_files(paths: Sequence[str | os.PathLike[str]], records: Sequence[RunRecord]) -> list[AnchorFile]:
    """Return the anchors to look in: the named files, those that the user measured, and those that ship.

    Raises:
        UserError: A file cannot be read, is not one of anchors, or is named and fits none of the runs.
    """
    from evopolicygym.analysis.anchors import NoAnchors, fitting_anchors
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
    listed = [one_line(name)[:MAX_SHOWN] for name in sorted(names)]
    return ", ".join(listed[:4]) + (f" and {len(listed) - 4} more" if len(listed) > 4 else "")


def compare(
    *runs: RunsLike, effect: float = 0.05, scale: int = CURRENT_SCALE, labels: Mapping[str, str] | None = None
) -> Comparison:
    """Compare entrants on the cases that they share: paired differences with intervals, per task and over tasks.

    Args:
        runs: One argument for each side: a path, ``Runs``, or several ``Run``. Where one holds runs of several
            entrants, each of them is a side. One entrant is enough if it has runs on plain and on disguised tasks:
            its knowledge gap is computed.
        effect: The smallest difference of interest, as a share of the score scale: what numbers of runs are planned
            for.
        scale: Version of the scale of normalised scores; 1 repeats older comparisons.
        labels: As in ``leaderboard``.

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
    from evopolicygym.analysis.entrants import name_entrants, run_author, with_names
    from evopolicygym.analysis.knowledge_gap import knowledge_gaps
    from evopolicygym.analysis.provenance import provenance
    from evopolicygym.analysis.scales import with_scales

    gathered = [gather(side) for side in runs]
    refuse_copies(run for side in gathered for run in side)
    skipped = tuple(skip for side in gathered for skip in side.skipped)
    records = _by_label(gathered)
    files = anchor_files((), ())
    names = name_entrants((run_author(run) for side in records.values() for run in side), labels or {})
    records = {label: with_names(with_scales(side, files, scale), names) for label, side in records.items()}
    everything = [run for side in records.values() for run in side]
    entrants, gaps = compared_entrants(records), knowledge_gaps(everything)
    if len(entrants) < 2 and not gaps:
        left_out = "".join(f"\n{skip.path} is left out: {skip.why}" for skip in skipped)
        raise UserError(
            f"compare needs two sides (got: {len(entrants)}){left_out}",
            "Name two folders, or one that holds runs of two entrants, or of one on plain and disguised tasks.",
        )
    pairs = tuple(analysis.compare(entrants, effect))
    return Comparison(pairs, tuple(entrants), gaps, names.entrants, provenance(everything), skipped, scale)


def analyze(runs: RunsLike | Iterable[str | os.PathLike[str]], *, labels: Mapping[str, str] | None = None) -> Analysis:
    """Return how finished runs went: edits and hits, curves, budget, structure.

    Args:
        runs: A path, several paths, ``Runs``, or several ``Run``. Their folders are read again: the diagnostics need
            the code and the transcripts, not the record alone.
        labels: As in ``leaderboard``.

    Raises:
        UserError: There is no run below a path.

    >>> import evopolicygym
    >>> made = evopolicygym.analyze("examples/runs/acrobot__tuner__s0")
    >>> made.to_pandas()["outcome"].tolist()
    ['scored']
    """
    from evopolicygym.analysis.analyze import analyze_runs, summarize_entrants

    result = analyze_runs(folders_of(runs), anchor_files((), ()), labels or {})
    groups = tuple(summarize_entrants(result.runs))
    return Analysis(result.runs, result.origins, groups, result.entrants, result.provenance, result.skipped)


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
