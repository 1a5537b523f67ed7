"""Analyze all runs below some paths: diagnose each, and summarize them by conditions, entrant and group of tasks.

`analyze_runs` gives the diagnoses, `summarize_entrants` hit rates (Table 4), hit rates by edit size
(Figure 8) and mean structure (Table 3), `flat_row` one row of plain values per run for CSV and data frames.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from statistics import fmean
from typing import Any, Final

import numpy as np

from evopolicygym.analysis.diagnostics import CodeSize, Diagnosis, count_edits, diagnose
from evopolicygym.analysis.edits.kinds import CANONICAL_EDITS, EDITS, CanonicalKind, EditKind, SizeClass
from evopolicygym.analysis.edits.timeline import TimelineEvent
from evopolicygym.analysis.entrants import NO_LABELS, Entrant, RunAuthor, name_entrants, run_author
from evopolicygym.analysis.gain import CurveMeans, curve_means, gain_columns
from evopolicygym.analysis.leaderboard.boards import split_by_id
from evopolicygym.analysis.leaderboard.variance_table import RunReturns, VarianceRow, variance_rows
from evopolicygym.analysis.loading import CopyCheck, RunFolder, Skipped, analyze_folder, find_run_folders
from evopolicygym.analysis.provenance import Provenance, merge, provenance
from evopolicygym.analysis.scales import with_scales
from evopolicygym.analysis.spending import files_opened
from evopolicygym.analysis.stats.hit_rates import HitCount, HitRate, hit_rate
from evopolicygym.reference import CURRENT_SCALE
from evopolicygym.reference.anchors import AnchorFile
from evopolicygym.run_record import DEFAULT_CONDITIONS, RunRecord

FlatRow = dict[str, Any]
ALL: Final = "all"
UNGROUPED: Final = "other"


@dataclass(frozen=True)
class AnalyzedRuns:
    """Diagnoses of the readable runs, where each comes from, the entrants behind their names, and the folders that were
    skipped."""

    runs: tuple[Diagnosis, ...]
    origins: tuple[Provenance, ...]
    entrants: tuple[Entrant, ...]
    provenance: Provenance
    skipped: tuple[Skipped, ...]


def scaled_folder(opened: RunFolder, files: Sequence[AnchorFile], scale: int = CURRENT_SCALE) -> RunFolder:
    """Return a run folder whose record has the scale to use: from these anchors, where there is no stored one."""
    (run,) = with_scales([opened.run], files, scale)
    return replace(opened, run=run)


def analyze_runs(
    paths: Sequence[Path], files: Sequence[AnchorFile] = (), labels: Mapping[str, str] = NO_LABELS
) -> AnalyzedRuns:
    """Diagnose the runs below ``paths``. Records are read one at a time: only the diagnoses stay in memory. ``files``
    are anchors that tasks without a stored scale get one from, ``labels`` new names of entrants."""
    runs: list[tuple[RunOrigin, Diagnosis]] = []
    skipped: list[Skipped] = []
    copies = CopyCheck()
    for folder in find_run_folders(paths):
        result = analyze_folder(
            folder, lambda opened: (run_origin(opened.run), diagnose(scaled_folder(opened, files))), copies
        )
        if isinstance(result, Skipped):
            skipped.append(result)
        else:
            runs.append(result)
    names = name_entrants((origin.author for origin, _ in runs), labels)
    named = tuple(with_entrant(diagnosis, names.by_author[origin.author]) for origin, diagnosis in runs)
    origins = tuple(origin.provenance for origin, _ in runs)
    return AnalyzedRuns(named, origins, names.entrants, merge(origins), tuple(skipped))


@dataclass(frozen=True)
class RunOrigin:
    """Entrant and conditions of a run: the part of its record that is kept until all runs are read."""

    author: RunAuthor
    provenance: Provenance


def run_origin(run: RunRecord) -> RunOrigin:
    return RunOrigin(run_author(run), provenance([run]))


def with_entrant(diagnosis: Diagnosis, name: str) -> Diagnosis:
    """Return a diagnosis whose entrant has another name."""
    return replace(diagnosis, summary=replace(diagnosis.summary, entrant=name))


@dataclass(frozen=True)
class EntrantSummary:
    """Summary of one entrant under one set of conditions, on the tasks of one demand or on ``all``. ``structure`` has
    means over the selected code, ``mechanisms`` the number of runs whose selected code holds each, ``learning`` means
    over the learning curves of each task, ``variance`` the variance components of its scores."""

    conditions: str
    entrant: str
    agent: str | None
    model: str | None
    tasks: str
    runs: int
    edits: dict[EditKind, HitRate]
    canonical_edits: dict[CanonicalKind, HitRate]
    sizes: dict[SizeClass, HitRate]
    structure: dict[str, float] | None
    mechanisms: dict[str, int]
    learning: dict[str, CurveMeans]
    variance: tuple[VarianceRow, ...]

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def summarize_entrants(diagnoses: Sequence[Diagnosis]) -> list[EntrantSummary]:
    """Summarize runs by conditions and entrant: each demand that it played and, when there are several, all tasks
    together."""
    summaries: list[EntrantSummary] = []
    for words, members in by_conditions(diagnoses).items():
        by_entrant: dict[str, list[Diagnosis]] = defaultdict(list)
        for run in members:
            by_entrant[run.summary.entrant].append(run)
        summaries += [summary for _, runs in sorted(by_entrant.items()) for summary in _by_demand(words, runs)]
    return summaries


def by_conditions(diagnoses: Sequence[Diagnosis]) -> dict[str, list[Diagnosis]]:
    """Group runs that may be counted together, as boards of a leaderboard do: equal conditions, and one comparable_id
    per task. The most runs come first. Names say how conditions differ from the default ones and, where that is the
    same for several groups, from each other."""
    alike: dict[str, list[Diagnosis]] = defaultdict(list)
    for run in diagnoses:
        alike[json.dumps(run.board, sort_keys=True, default=str)].append(run)
    groups = sorted((group for runs in alike.values() for group in _split_by_id(runs)), key=len, reverse=True)
    same_words: dict[str, list[list[Diagnosis]]] = defaultdict(list)
    for group in groups:
        same_words[group[0].summary.conditions or DEFAULT_CONDITIONS].append(group)
    named: dict[str, list[Diagnosis]] = {}
    used: Counter[str] = Counter()
    for words, others in same_words.items():
        for name, group in zip(_names(words, others), others, strict=True):
            while (shown := name if not used[name] else f"{name} #{used[name] + 1}") in named:
                used[name] += 1  # 1 and "1" of a forged record read the same
            used[name] += 1
            named[shown] = group
    return named


def _split_by_id(runs: Sequence[Diagnosis]) -> Iterable[list[Diagnosis]]:
    """Return groups with one comparable_id per task each, as boards have them."""
    times = Counter(run.same_id for run in runs)
    sets = split_by_id(replace(group, runs=number) for group, number in times.items())
    number_of = {key: number for number, chosen in enumerate(sets) for key in chosen}
    groups: dict[int, list[Diagnosis]] = defaultdict(list)
    for run in runs:
        groups[number_of[run.same_id.task, run.same_id.comparable_id]].append(run)
    return [groups[number] for number in sorted(groups)]


def _names(words: str, groups: Sequence[Sequence[Diagnosis]]) -> Iterator[str]:
    """Yield a name for each group of the same words, which says how it differs from the others."""
    if len(groups) == 1:
        yield words
        return
    boards = [group[0].board for group in groups]
    texts = [json.dumps(board, sort_keys=True, default=str) for board in boards]
    times, first = Counter(texts), boards[0]
    differing = {name for board in boards for name in {**board, **first} if board.get(name) != first.get(name)}
    for group, board, text in zip(groups, boards, texts, strict=True):
        facts = [f"{name.replace('_', ' ')} {_fact(value)}" for name, value in board.items() if name in differing]
        named = ", ".join([words, *facts])
        if times[text] > 1:
            ids = sorted({run.summary.comparable_id for run in group})
            named += f", {ids[0]}" + (f" and {len(ids) - 1} more" if len(ids) > 1 else "")
        yield named


def _fact(value: Any) -> str:
    return (" and ".join(map(str, value)) or "no") if isinstance(value, list) else str(value)


def _by_demand(conditions: str, runs: Sequence[Diagnosis]) -> list[EntrantSummary]:
    demands = sorted({_demand(run) for run in runs})
    parts = {demand: [run for run in runs if _demand(run) == demand] for demand in demands}
    if len(parts) > 1:
        parts[ALL] = list(runs)
    return [_summarize(conditions, name, members) for name, members in parts.items()]


def _demand(run: Diagnosis) -> str:
    return run.summary.demand or UNGROUPED


def _summarize(conditions: str, tasks: str, runs: Sequence[Diagnosis]) -> EntrantSummary:
    summary = runs[0].summary
    return EntrantSummary(
        conditions=conditions,
        entrant=summary.entrant,
        agent=summary.agent,
        model=summary.model,
        tasks=tasks,
        runs=len(runs),
        edits={kind: hit_rate([run.edits[kind] for run in runs]) for kind in EDITS},
        canonical_edits={kind: hit_rate([run.canonical_edits[kind] for run in runs]) for kind in CANONICAL_EDITS},
        sizes={size: _rate_of_size(runs, size) for size in SizeClass},
        structure=_mean_code_size([run.structure.selected for run in runs if run.structure.selected]),
        mechanisms=_mechanisms(runs),
        learning=_learning(runs),
        variance=tuple(variance_rows(_returns(runs))),
    )


def _mechanisms(runs: Sequence[Diagnosis]) -> dict[str, int]:
    return dict(Counter(mechanism.name for run in runs for mechanism in run.mechanisms or ()))


def _returns(runs: Sequence[Diagnosis]) -> list[RunReturns]:
    """Return the returns of the scored runs, by task."""
    by_task: dict[str, list[Diagnosis]] = defaultdict(list)
    for run in runs:
        if run.heldout_returns:
            by_task[run.summary.task].append(run)
    return [
        RunReturns(
            task, members[0].summary.entrant, np.array([run.heldout_returns for run in members]), members[0].scale_unit
        )
        for task, members in sorted(by_task.items())
    ]


def _learning(runs: Sequence[Diagnosis]) -> dict[str, CurveMeans]:
    by_task: dict[str, list[Diagnosis]] = defaultdict(list)
    for run in runs:
        by_task[run.summary.task].append(run)
    return {
        task: curve_means([run.learning for run in members], members[0].bounds)
        for task, members in sorted(by_task.items())
    }


def _rate_of_size(runs: Sequence[Diagnosis], size: SizeClass) -> HitRate:
    return hit_rate([_count_size(run.timeline, size) for run in runs])


def _count_size(events: Sequence[TimelineEvent], size: SizeClass) -> HitCount:
    return count_edits(event for event in events if event.size is size)


def _mean_code_size(sizes: Sequence[CodeSize]) -> dict[str, float] | None:
    return (
        {field.name: fmean(getattr(size, field.name) for size in sizes) for field in fields(CodeSize)}
        if sizes
        else None
    )


def flat_row(run: Diagnosis) -> FlatRow:
    """Return one row of plain values for a run; None is unknown."""
    gains = gain_columns(run.gain, run.learning)
    summary = asdict(run.summary) | {"not_recorded": "; ".join(run.summary.not_recorded)}
    return summary | _spending(run) | gains | _progress(run) | _edits(run) | _structure(run)


def _spending(run: Diagnosis) -> FlatRow:
    spent = asdict(run.spending)
    for listed in ("by_submission", "by_turn", "episodes_per_case", "refused", "tokens"):
        del spent[listed]
    tokens = {f"{kind}_tokens": amount for kind, amount in asdict(run.spending.tokens).items()}
    return spent | {"refused": sum(run.spending.refused.values())} | tokens | _effort(run)


def _effort(run: Diagnosis) -> FlatRow:
    efforts = [submission.between for submission in run.spending.by_submission]
    return {
        "submissions_with_tokens": sum(effort.tokens is not None for effort in efforts),
        "feedback_files_opened": files_opened(efforts),
    }


def _progress(run: Diagnosis) -> FlatRow:
    facts = asdict(run.progress)
    del facts["curve"]
    return facts | {f"episodes_to_{share}": episodes for share, episodes in facts.pop("episodes_to").items()}


def _edits(run: Diagnosis) -> FlatRow:
    numbers = {f"{kind}_edits": count.n for kind, count in run.edits.items()}
    hits = {f"{kind}_hits": count.hits for kind, count in run.edits.items()}
    canonical = {
        f"canonical_{kind}_{name}": getattr(count, field)
        for name, field in (("edits", "n"), ("hits", "hits"))
        for kind, count in run.canonical_edits.items()
    }
    of_run = {
        "inert_edits": sum(event.inert is True for event in run.timeline),
        "exact_returns": sum(event.exact_return for event in run.timeline),
        "phases": len(run.phases),
        "mechanisms": None if run.mechanisms is None else "; ".join(mechanism.name for mechanism in run.mechanisms),
        "unresolved_imports": len(run.unresolved_imports),
    }
    return numbers | hits | canonical | of_run | _feedback(run)


def _feedback(run: Diagnosis) -> FlatRow:
    return {f"feedback_{name}": value for name, value in run.feedback.counts().items()}


def _structure(run: Diagnosis) -> FlatRow:
    sizes = {"first": run.structure.first, "selected": run.structure.selected, "last": run.structure.last}
    return {
        f"{when}_{field.name}": getattr(size, field.name) if size else None
        for when, size in sizes.items()
        for field in fields(CodeSize)
    }
