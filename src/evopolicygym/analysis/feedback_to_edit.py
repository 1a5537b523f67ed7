"""From feedback to edit: what the agent read before an edit, which weak cases it played again, and how they went.

The case study of the paper's Figures 5 to 7, for any run. The weak cases of a submission are those whose episode
failed; where none failed, the quarter with the lowest returns. A case gives the same return for the same checkpoint, so
a change of its return comes from the edit. The weakest cases of a submission would rise somewhat by any change, because
they were chosen for being low: the other repeated cases stand beside them for comparison.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from fnmatch import fnmatchcase, translate
from itertools import islice
from typing import Any, Final

from evopolicygym.analysis.edits.kinds import CanonicalKind, EditKind
from evopolicygym.analysis.edits.timeline import TimelineEvent
from evopolicygym.analysis.formatting import format_number
from evopolicygym.analysis.spending import SubmissionEffort
from evopolicygym.run_record import RunRecord, SubmissionRecord

WORST_SHARE: Final = 0.25
MAX_CASES: Final = 6  # that are listed in a text
MAX_PATTERN: Final = 200
MAX_PATTERNS: Final = 200  # before one edit: an agent can print millions, and each is compiled


class Weakness(StrEnum):
    """The reason why cases of a submission count as weak."""

    FAILED = "failed"
    WORST = "worst"


@dataclass(frozen=True)
class CaseChange:
    """A case that was played again: returns and errors before and after the edit. ``improved``: a higher return, or no
    error any more. None where the later submission has no result."""

    case: int
    before: float
    after: float | None
    error_before: str | None
    error_after: str | None
    improved: bool | None


@dataclass(frozen=True)
class FeedbackEdit:
    """One edit and the feedback before it. ``previous``: the submission whose feedback is the latest. ``opened``: files
    that the agent opened since then; None if unknown. ``opened_cases``: cases of the previous submission whose episode
    files are among them. ``weak``: its weak cases. ``repeated``: those that this submission plays again;
    ``others``: other cases that it plays again. ``validation_change``: to the last score; None if one is missing."""

    submission: int
    previous: int
    kind: EditKind
    canonical: CanonicalKind | None
    opened: tuple[str, ...] | None
    opened_cases: tuple[int, ...] | None
    weakness: Weakness | None
    weak: tuple[int, ...]
    repeated: tuple[CaseChange, ...]
    others: tuple[CaseChange, ...]
    validation_change: float | None
    hit: bool

    @property
    def opened_weak(self) -> tuple[int, ...] | None:
        """Weak cases whose files were opened."""
        if self.opened_cases is None:
            return None
        opened = frozenset(self.opened_cases)
        return tuple(case for case in self.weak if case in opened)


@dataclass(frozen=True)
class FeedbackStudy:
    """The edits of a run with the feedback before them, and counts over them.

    ``opened``: edits before which a file of the feedback was opened; None if that is unknown for an edit.
    ``with_weak``: edits after a submission with weak cases; ``repeated``: those that played one of them again.
    ``weak_repeated`` and ``weak_improved``: cases, counted once for each edit; ``others_*``: the other repeated cases.
    """

    edits: tuple[FeedbackEdit, ...]
    opened: int | None
    with_weak: int
    repeated: int
    weak_repeated: int
    weak_improved: int
    others_repeated: int
    others_improved: int

    def counts(self) -> dict[str, int | None]:
        """Return the counts without the edits."""
        facts: dict[str, Any] = {name: value for name, value in asdict(self).items() if name != "edits"}
        return facts


def feedback_study(
    run: RunRecord, events: Sequence[TimelineEvent], efforts: Mapping[int, SubmissionEffort]
) -> FeedbackStudy:
    """Relate each edit of a run to the feedback of the submission before it."""
    edits = tuple(_edits(run, events, efforts))
    opened = [edit.opened for edit in edits]
    weak = [change for edit in edits for change in edit.repeated]
    others = [change for edit in edits for change in edit.others]
    return FeedbackStudy(
        edits=edits,
        opened=None if None in opened else sum(bool(files) for files in opened),
        with_weak=sum(bool(edit.weak) for edit in edits),
        repeated=sum(bool(edit.repeated) for edit in edits),
        weak_repeated=len(weak),
        weak_improved=_improved(weak),
        others_repeated=len(others),
        others_improved=_improved(others),
    )


def _improved(changes: Iterable[CaseChange]) -> int:
    return sum(change.improved is True for change in changes)


def _edits(
    run: RunRecord, events: Sequence[TimelineEvent], efforts: Mapping[int, SubmissionEffort]
) -> Iterable[FeedbackEdit]:
    previous: SubmissionRecord | None = None
    score: float | None = None
    for submission, event in zip(run.submissions, events, strict=True):
        if submission.refunded:
            continue
        if previous is not None:
            yield _edit(previous, submission, event, efforts.get(submission.number), score)
        previous = submission
        score = event.validation if event.validation is not None else score


def _edit(
    previous: SubmissionRecord,
    submission: SubmissionRecord,
    event: TimelineEvent,
    effort: SubmissionEffort | None,
    score: float | None,
) -> FeedbackEdit:
    opened = effort.feedback_opened if effort else None
    weakness, weak = weak_cases(previous)
    changes, chosen = list(_changes(previous, submission)), frozenset(weak)
    is_validated = event.validation is not None and score is not None
    return FeedbackEdit(
        submission=submission.number,
        previous=previous.number,
        kind=event.kind,
        canonical=event.canonical,
        opened=opened,
        opened_cases=None if opened is None else opened_cases(previous, opened),
        weakness=weakness,
        weak=weak,
        repeated=tuple(change for change in changes if change.case in chosen),
        others=tuple(change for change in changes if change.case not in chosen),
        validation_change=(event.validation or 0.0) - (score or 0.0) if is_validated else None,
        hit=event.hit,
    )


def weak_cases(submission: SubmissionRecord) -> tuple[Weakness | None, tuple[int, ...]]:
    """Return the cases of a submission that went badly, and why they count; none where all returns are equal."""
    if not _played(submission) or submission.train is None:
        return None, ()
    results = list(zip(submission.cases, submission.train.returns, submission.train.errors, strict=True))
    failed = tuple(dict.fromkeys(case for case, _, error in results if error is not None))
    if failed:
        return Weakness.FAILED, failed
    by_case = {case: result for case, result, _ in results}
    if len(set(by_case.values())) < 2:
        return None, ()
    number = math.ceil(WORST_SHARE * len(by_case))
    return Weakness.WORST, tuple(sorted(sorted(by_case, key=lambda case: by_case[case])[:number]))


def opened_cases(submission: SubmissionRecord, opened: Iterable[str]) -> tuple[int, ...]:
    """Return the cases of a submission whose episode files are among the opened ones, which may be patterns."""
    files = dict.fromkeys(tuple(path.split("/")[:3]) for path in opened if len(path) <= MAX_PATTERN)
    episodes = [parts for parts in files if len(parts) == 3]
    names, patterns = set[str](), list[str]()
    wanted = (f"submit_{submission.number:03}", "episodes")
    for parts in (parts for parts in episodes if not _is_pattern(*parts) and parts[:2] == wanted):
        names.add(parts[2])
    for parts in islice((parts for parts in episodes if _is_pattern(*parts)), MAX_PATTERNS):
        if all(map(fnmatchcase, wanted, parts[:2])):
            patterns.append(parts[2])
    matches = re.compile("|".join(map(translate, patterns))).match if patterns else lambda name: None
    cited = {
        case for number, case in enumerate(submission.cases) if (name := f"ep_{number:03}") in names or matches(name)
    }
    return tuple(sorted(cited))


def _is_pattern(*parts: str) -> bool:
    return any(letter in part for part in parts for letter in "*?[")


def _played(submission: SubmissionRecord) -> bool:
    """Return whether there is a return and an error for each case; imported runs can lack them."""
    train = submission.train
    return train is not None and len(train.returns) == len(train.errors) == len(submission.cases)


def _changes(previous: SubmissionRecord, submission: SubmissionRecord) -> Iterator[CaseChange]:
    """Yield the cases of a submission that the next one plays again, each once."""
    later, again = _results(submission), frozenset(submission.cases)
    for case, (before, error_before) in _results(previous).items():
        if case in again:
            after, error_after = later.get(case, (None, None))
            mended = error_before is not None and error_after is None
            improved = None if after is None else error_after is None and (after > before or mended)
            yield CaseChange(case, before, after, error_before, error_after, improved)


def _results(submission: SubmissionRecord) -> dict[int, tuple[float, str | None]]:
    """Return the first return and error of each case, in the order of the cases; nothing where a case has none."""
    train, results = submission.train, dict[int, tuple[float, str | None]]()
    if train is not None and _played(submission):
        for case, value, error in zip(submission.cases, train.returns, train.errors, strict=True):
            results.setdefault(case, (value, error))
    return results


def describe_change(change: CaseChange) -> str:
    """Return a repeated case in words: its number, and how its return changed."""
    mended = bool(change.error_before and not change.error_after) and change.after is not None
    return f"case {change.case}: {format_number(change.before)} -> {format_number(change.after)}{' (mended)' * mended}"


def list_cases(cases: Sequence[int]) -> str:
    """Return numbers of cases as a text, the first few of them."""
    more = len(cases) - MAX_CASES
    return ", ".join(map(str, cases[:MAX_CASES])) + (f" and {more} more" if more > 0 else "")


def describe_feedback(edit: FeedbackEdit) -> str | None:
    """Return in words what an edit made of the weak cases before it; None where there were none."""
    if edit.weakness is None:
        return None
    looked = "" if not edit.opened_weak else f", opened those of {list_cases(edit.opened_weak)}"
    weak = f"{edit.weakness} cases of submission {edit.previous}: {list_cases(edit.weak)}{looked}"
    if not edit.repeated:
        return f"{weak}; plays none of them again"
    return f"{weak}; plays again " + "; ".join(map(describe_change, edit.repeated[:MAX_CASES]))
