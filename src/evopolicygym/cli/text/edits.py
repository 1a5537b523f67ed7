"""Tables of `evopolicygym analyze` about edits: the canonical form, feedback before each edit, mechanisms."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from evopolicygym.analysis.diagnostics import Diagnosis
from evopolicygym.analysis.edits.kinds import CANONICAL_EDITS
from evopolicygym.analysis.edits.mechanisms import RULES
from evopolicygym.analysis.feedback_to_edit import MAX_CASES, FeedbackEdit, describe_change, list_cases
from evopolicygym.analysis.formatting import UNKNOWN, format_gain, format_number
from evopolicygym.cli.output import print_text, print_titled_table
from evopolicygym.printable import one_line

CANONICAL_TITLE: Final = "edits by the canonical form (names, order, unused code and formatting ignored): hits / number"
CANONICAL_HEADER: Final = ("run", *CANONICAL_EDITS)
FEEDBACK_TITLE: Final = "feedback to edit: weak cases (failed, or the lowest quarter) of the submission before"
FEEDBACK_HEADER: Final = (
    *("run", "edits", "opened feedback", "after weak cases", "repeated some", "weak improved", "others improved"),
)
STEP_HEADER: Final = (
    *("edit", "kind", "canonical", "opened", "weak cases", "looked at", "repeated", "before -> after", "validation"),
)
MECHANISM_TITLE: Final = "mechanisms of the selected code, with the line that shows each"
DETAILED_RUNS: Final = 2
NAMES_CASES: Final = ("before -> after", "opened", "looked at", "canonical")


def show_canonical_edits(runs: Sequence[Diagnosis], name: Callable[[Diagnosis], str]) -> None:
    rows = [(name(run), *(f"{count.hits}/{count.n}" for count in run.canonical_edits.values())) for run in runs]
    print_titled_table(CANONICAL_TITLE, CANONICAL_HEADER, rows, ("unknown", "retest", "data"))


def show_mechanisms(runs: Sequence[Diagnosis], name: Callable[[Diagnosis], str]) -> None:
    """Show where each mechanism is; for few runs, also the lines themselves."""
    header = ("run", *(rule.replace("_", " ") for rule in RULES))
    print_titled_table(MECHANISM_TITLE, header, [(name(run), *_mechanism_places(run)) for run in runs])
    for run in runs if len(runs) <= DETAILED_RUNS else ():
        for mechanism in run.mechanisms or ():
            title = mechanism.name.replace("_", " ")
            print_text(
                f"  {name(run)}: {title}: {one_line(mechanism.file)}:{mechanism.line}: {one_line(mechanism.text)}"
            )
        print_text()


def _mechanism_places(run: Diagnosis) -> list[str]:
    if run.mechanisms is None:
        return ["unknown"] * len(RULES)
    places = {mechanism.name: f"{one_line(mechanism.file)}:{mechanism.line}" for mechanism in run.mechanisms}
    return [places.get(rule, UNKNOWN) for rule in RULES]


def show_feedback(runs: Sequence[Diagnosis], name: Callable[[Diagnosis], str]) -> None:
    """Show what edits made of the feedback before them; for few runs, edit by edit."""
    print_titled_table(FEEDBACK_TITLE, FEEDBACK_HEADER, [_study(run, name(run)) for run in runs])
    for run in runs if len(runs) <= DETAILED_RUNS else ():
        if run.feedback.edits:
            title = f"feedback to edit, edit by edit: {name(run)}"
            print_titled_table(title, STEP_HEADER, [_step(edit) for edit in run.feedback.edits], NAMES_CASES)


def _study(run: Diagnosis, name: str) -> Sequence[str]:
    study = run.feedback
    return (
        name,
        str(len(study.edits)),
        format_number(study.opened),
        str(study.with_weak),
        str(study.repeated),
        f"{study.weak_improved} of {study.weak_repeated}",
        f"{study.others_improved} of {study.others_repeated}",
    )


def _step(edit: FeedbackEdit) -> Sequence[str]:
    weak = f"{list_cases(edit.weak)} ({edit.weakness})" if edit.weakness else UNKNOWN
    return (
        f"{edit.previous} to {edit.submission}",
        edit.kind,
        edit.canonical or UNKNOWN,
        UNKNOWN if edit.opened is None else f"{len(edit.opened)} files",
        weak,
        UNKNOWN if edit.opened_weak is None or not edit.weak else list_cases(edit.opened_weak) or "none",
        (list_cases([change.case for change in edit.repeated]) or "none") if edit.weak else UNKNOWN,
        "; ".join(map(describe_change, edit.repeated[:MAX_CASES])) or UNKNOWN,
        format_gain(edit.validation_change),
    )
