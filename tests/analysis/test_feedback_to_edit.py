"""From feedback to edit: weak cases, which of them are played again, and whether they improved."""

from __future__ import annotations

import json
from dataclasses import replace

from run_folders import Step, source, write_run

from command_server import run_command
from evopolicygym.analysis.diagnostics import diagnose
from evopolicygym.analysis.feedback_to_edit import MAX_PATTERNS, Weakness, describe_feedback, opened_cases
from evopolicygym.analysis.loading import open_run_folder


def study(folder, steps):
    return diagnose(open_run_folder(write_run(folder, steps).folder)).feedback


def step(text: str, cases, returns, **facts) -> Step:
    return source(text, cases=cases, returns=returns, **facts)


def test_failed_cases_that_are_repeated(tmp_path):
    """Case 7 failed and is mended, case 9 failed and is left out, case 3 is repeated and falls."""
    edits = study(tmp_path / "run", [
        step("a = 1", [3, 7, 9], [5.0, 0.0, 0.0], errors=[None, "act_error", "timeout"]),
        step("a = 2", [7, 3], [0.0, 4.0], validation=2.0),
    ])  # fmt: skip
    (edit,) = edits.edits
    assert (edit.weakness, edit.weak) == (Weakness.FAILED, (7, 9))
    assert [(change.case, change.before, change.after, change.improved) for change in edit.repeated] == [
        (7, 0, 0, True)
    ]
    assert [(change.case, change.improved) for change in edit.others] == [(3, False)]
    assert (edit.validation_change, edit.hit) == (2.0, True)
    assert (edits.with_weak, edits.repeated, edits.weak_improved, edits.others_improved) == (1, 1, 1, 0)
    assert describe_feedback(edit) == "failed cases of submission 1: 7, 9; plays again case 7: 0 -> 0 (mended)"


def test_the_worst_quarter_where_nothing_failed(tmp_path):
    (first, second) = study(tmp_path / "run", [
        step("a = 1", range(8), [8.0, 7.0, 1.0, 6.0, 5.0, 0.0, 4.0, 3.0]),
        step("a = 2", [2, 4], [0.5, 9.0]),
        step("a = 3", [0], [1.0]),
    ]).edits  # fmt: skip
    assert (first.weakness, first.weak) == (Weakness.WORST, (2, 5))
    assert [(change.case, change.improved) for change in first.repeated] == [(2, False)]
    assert [(change.case, change.improved) for change in first.others] == [(4, True)]
    assert (second.weak, second.repeated, second.others) == ((2,), (), ())
    assert describe_feedback(second) == "worst cases of submission 2: 2; plays none of them again"


def test_equal_returns_have_no_weak_case(tmp_path):
    (edit,) = study(tmp_path / "run", [step("a = 1", [0, 1], [2.0, 2.0]), step("a = 2", [0], [3.0])]).edits
    assert (edit.weakness, edit.weak, describe_feedback(edit)) == (None, (), None)
    assert [change.improved for change in edit.others] == [True]


def test_submissions_without_results(tmp_path):
    """A failed submission has no returns: what it repeats is unknown, and what follows it has nothing to repeat. A
    refunded one is passed over."""
    edits = study(tmp_path / "run", [
        step("a = 1", [0, 1], [1.0, 2.0]),
        step("a = 1", [0], [1.0], refunded=True),
        step("a =", [0], [0.0], verdict="import_error"),
        step("a = 2", [0], [5.0]),
    ]).edits  # fmt: skip
    assert [(edit.previous, edit.submission) for edit in edits] == [(1, 3), (3, 4)]
    assert [(change.case, change.after, change.improved) for change in edits[0].repeated] == [(0, None, None)]
    assert (edits[1].weak, edits[1].others, edits[1].validation_change) == ((), (), 0.0)


def test_opened_episodes_are_cases(tmp_path):
    """ep_001 is the second episode of its submission, whichever case that was."""
    written = write_run(tmp_path / "run", [
        step("a = 1", [4, 6], [0.0, 1.0], errors=["crash", None]),
        step("a = 2", [4], [3.0]),
    ])  # fmt: skip
    turn = {
        "exit_code": 0, "wall_s": 1.0, "submissions": 2, "failure": None, "stop": False, "model": None, "usage": None,
        "price": None,
    }  # fmt: skip
    written.facts["turns"] = [turn]
    written.rewrite()
    logs = written.folder / "logs" / "agent"
    logs.mkdir(parents=True)
    events = [
        {"type": "tool_result", "content": "submit_001: ok"},
        {"type": "tool_use", "input": {"command": "cat feedback/submit_001/episodes/ep_000/error.txt"}},
        {"type": "tool_result", "content": "submit_002: ok"},
    ]
    (logs / "turn_001.out").write_text("".join(json.dumps(event) + "\n" for event in events))
    (edit,) = diagnose(open_run_folder(written.folder)).feedback.edits
    assert edit.opened == ("submit_001/episodes/ep_000/error.txt",)
    assert (edit.opened_cases, edit.opened_weak) == ((4,), (4,))
    submission = open_run_folder(written.folder).run.submissions[0]
    assert opened_cases(submission, ["*/episodes/ep_00[01]/trajectory.jsonl"]) == (4, 6)
    assert opened_cases(submission, ["submit_002/episodes/ep_000/error.txt", "submit_001/summary.json"]) == ()


class CountedCase(int):
    """A number of a case that counts how often cases are compared."""

    compared = 0

    def __eq__(self, other: object) -> bool:
        CountedCase.compared += 1
        return int.__eq__(self, other)

    __hash__ = int.__hash__


def test_the_work_grows_with_the_number_of_cases_and_not_with_its_square(tmp_path):
    """A record of others may hold millions of cases."""
    number = 3_000
    steps = [step(f"a = {value}", range(number), [float(case % 7) for case in range(number)]) for value in (1, 2)]
    opened = open_run_folder(write_run(tmp_path / "run", steps, budget=2 * number).folder)
    submissions = [
        made.model_copy(update={"cases": [CountedCase(case + 100_000) for case in range(number)]})
        for made in opened.run.submissions
    ]
    run = opened.run.model_copy(update={"submissions": submissions})
    CountedCase.compared = 0
    (edit,) = diagnose(replace(opened, run=run)).feedback.edits
    assert len(edit.repeated) + len(edit.others) == number
    assert CountedCase.compared < 40 * number


def test_patterns_beyond_a_bound_are_left_out(tmp_path):
    """Each pattern is compiled, and an agent can print millions of them. Plain names are all found."""
    run = open_run_folder(write_run(tmp_path / "run", [step("a = 1", [4, 6], [0.0, 1.0])]).folder).run
    other = [f"submit_001/episodes/x{number}*/a" for number in range(MAX_PATTERNS)]
    assert opened_cases(run.submissions[0], [*other, "submit_001/episodes/ep_001/a"]) == (6,)
    assert opened_cases(run.submissions[0], [*other, "submit_001/episodes/ep_*/a"]) == ()
    assert opened_cases(run.submissions[0], [*other[1:], "submit_001/episodes/ep_*/a"]) == (4, 6), "control"


def test_analyze_prints_each_edit(tmp_path):
    folder = write_run(tmp_path / "run", [step("a = 1", [0, 1], [1.0, 2.0]), step("a = 2", [0], [5.0])]).folder
    text = run_command("analyze", str(folder)).stdout
    assert "case 0: 1 -> 5" in text
    facts = json.loads(run_command("analyze", str(folder), "--json").stdout)
    assert facts["runs"][0]["feedback"]["edits"][0]["repeated"][0]["improved"] is True
