"""The paper's tables from its own numbers."""

from __future__ import annotations

import json
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from conftest import TESTS
from evopolicygym.analysis.leaderboard.text_tables import differences_text
from evopolicygym.analysis.reference_table import reference_table
from evopolicygym.analysis.reproduce import hit_rates, normalised_table, rank_table, reproduce
from evopolicygym.errors import UserError
from evopolicygym.reference import paper
from evopolicygym.reference.baselines import BaselineRun
from evopolicygym.reference.paper import Document, document, load

STORED = document()
TASKS = list(STORED.table1)


def changed(**tables) -> Document:
    return Document.model_validate({**STORED.model_dump(), **tables})


def test_every_printed_cell_is_reproduced():
    reproduction = reproduce(STORED, STORED)
    assert reproduction.holds
    assert reproduction.compared == 5 * 7 + 18 * 4


def test_agents_trivial_policies_and_baselines_share_one_table():
    table = reproduce(STORED, STORED).reference
    order = [row.entrant for row in table.rows]
    assert order[:4] == [f"{name} (paper)" for name in ("GPT-5.5", "Claude Opus 4.7", "MiniMax-M3", "DeepSeek-V4-Pro")]
    assert {"random policy", "zero policy", "constant policy"} <= set(order)
    for row in table.rows:
        assert row.score + row.optimality_gap == pytest.approx(1.0)
        assert row.score == 0.0 if row.entrant.endswith("policy") else row.score > row.unclipped
    assert table.scale_version == 2 and [order.choice for order in table.sensitivity.choices][-1] == "scale 1"


def test_baselines_with_all_tasks_are_ranked():
    runs = [
        BaselineRun(task=task, agent=agent, seed=0, score=score, budget=128, submissions=1, candidates=1,
                    splits_id="paper", comparable_id="c", evopolicygym="0")
        for task in TASKS for agent, score in (("best", 1e6), ("worst", -1e6))
    ]  # fmt: skip
    table = reference_table(STORED.table1, [*runs, runs[0].model_copy(update={"agent": "part"})])
    assert table.rows[0].entrant == "best" and table.rows[0].score == 1.0 < table.rows[0].unclipped
    assert table.incomplete == {"part": 1}
    assert {row.entrant: row.score for row in table.rows}["worst"] == 0.0


def test_hit_rates_follow_from_the_counts():
    rates = hit_rates(STORED)
    assert rates["GPT-5.5"]["parametric edits, tuning tasks"] == pytest.approx(100 * 19 / 31)
    assert rates["MiniMax-M3"]["parametric edits, synthesis tasks"] is None


@settings(max_examples=20)
@given(st.permutations(list(STORED.table1[TASKS[0]])))
def test_permuted_agents_permute_the_result(order):
    given_ = changed(table1={task: {name: row[name] for name in order} for task, row in STORED.table1.items()})
    reproduction = reproduce(given_, STORED)
    assert reproduction.holds
    assert list(reproduction.table2) == order
    assert reproduction.table2 == rank_table(STORED)


def test_renaming_agents_does_not_change_their_results():
    names = list(STORED.table1[TASKS[0]])
    agents = [name for name in names if name != "random"]
    renamed = dict(zip(agents, [*agents[1:], agents[0]], strict=True)) | {"random": "random"}
    given_ = changed(
        table1={task: {renamed[name]: value for name, value in row.items()} for task, row in STORED.table1.items()}
    )
    assert rank_table(given_) == {renamed[name]: row for name, row in rank_table(STORED).items()}
    assert normalised_table(given_) == {
        task: {renamed[name]: value for name, value in row.items()} for task, row in normalised_table(STORED).items()
    }
    assert not reproduce(given_, STORED).holds


@settings(max_examples=40)
@given(st.sampled_from(TASKS), st.sampled_from(list(STORED.table1[TASKS[0]])), st.sampled_from([1e-9, -0.001, 50.0]))
def test_one_altered_cell_is_named(task, agent, change):
    table = {name: dict(row) for name, row in STORED.table1.items()}
    table[task][agent] += change
    reproduction = reproduce(changed(table1=table), STORED)
    assert not reproduction.holds
    assert [(cell.table, cell.row, cell.column) for cell in reproduction.altered] == [("Table 1", task, agent)]


def test_altered_results_and_counts_are_named_too():
    table2 = {name: dict(row) for name, row in STORED.table2.items()}
    table2["random"]["core16"] = 0.11
    reproduction = reproduce(changed(table2=table2), STORED)
    assert [str(cell) for cell in reproduction.wrong] == ["Table 2, random, core16: 0.109375, printed 0.11"]
    table4 = STORED.model_dump()["table4"]
    table4["GPT-5.5"]["tuning"]["parametric"]["hits"] = 20
    (cell,) = reproduce(changed(table4=table4), STORED).altered
    assert str(cell) == "Table 4, GPT-5.5 tuning parametric, hits: 20, printed 19"


def test_average_ranks_would_not_give_the_printed_totals():
    """The rule for ties is the paper's: with average ranks its MiniMax-M3 would have 0.484."""
    assert rank_table(STORED)["MiniMax-M3"]["core16"] == pytest.approx(0.53125)


@pytest.mark.parametrize("suffix", ["json", "toml"])
def test_a_file_may_replace_some_tables(tmp_path, suffix):
    file = tmp_path / f"input.{suffix}"
    table = {task: dict(random.Random(0).sample(list(row.items()), 5)) for task, row in STORED.table1.items()}
    rows = (
        f'["{task}"]\n' + "\n".join(f'"{name}" = {value}' for name, value in row.items()) for task, row in table.items()
    )
    toml = "\n".join(row.replace("[", "[table1.", 1) for row in rows)
    file.write_text(json.dumps({"table1": table}) if suffix == "json" else toml)
    assert load(file).table1 == table
    assert reproduce(load(file), STORED).holds


INVALID_JSON = ["", "{", '{"table1": 3}', '{"table1": {"x": {"y": null}}}', '{"nothing": 1}', "[]", "[" * 100_000]
INVALID_TOML = ["table1", "table1 = 3", "table1 = " + "[" * 100_000]


@pytest.mark.parametrize(
    ("suffix", "text"),
    [*(("json", text) for text in INVALID_JSON), *(("toml", text) for text in INVALID_TOML)],
    ids=lambda text: text[:40],
)
def test_invalid_input_files_are_user_errors(tmp_path, suffix, text):
    file = tmp_path / f"input.{suffix}"
    file.write_text(text)
    with pytest.raises(UserError):
        load(file)


def test_counts_beyond_all_bounds_are_refused(tmp_path):
    """No float can be divided by them."""
    file, tables = tmp_path / "paper.json", STORED.model_dump()
    counts = tables["table4"]
    while "edits" not in counts:
        counts = next(iter(counts.values()))
    for edits in (10**400, -1):
        counts["edits"] = edits
        file.write_text(json.dumps({"table4": tables["table4"]}))
        with pytest.raises(UserError, match="edits: Input should be"):
            load(file)
    counts["edits"] = 2**52
    file.write_text(json.dumps({"table4": tables["table4"]}))
    assert load(file), "control"


@pytest.mark.parametrize("table1", [{}, {"core16/acrobot": {"GPT-5.5": 1.0}}])
def test_a_table_that_lacks_rows_or_entrants_is_refused(table1):
    with pytest.raises(UserError):
        reproduce(changed(table1=table1), STORED)


def test_families_and_demands_each_cover_core16():
    for groups in (paper.families(), paper.demands()):
        assert sorted(task for tasks in groups.values() for task in tasks) == sorted(paper.core16())


def test_on_the_first_scale_the_two_best_agents_are_not_told_apart():
    pair = reproduce(document(), document()).differences_on_scale_1[0]
    assert (pair.first, pair.second, pair.test.won, pair.test.lost) == ("GPT-5.5", "Claude Opus 4.7", 11, 5)
    assert (round(pair.test.p, 3), round(pair.test.p_sign, 2)) == (0.079, 0.21)


def test_the_worked_example_of_the_documentation_is_what_is_printed():
    text = " ".join((TESTS.parent / "docs" / "statistics.md").read_text().split())
    example = text.partition("## A worked example")[2].partition(" ## ")[0]
    pairs = reproduce(STORED, STORED).differences
    rows = [" ".join(row) for row in differences_text("", pairs, len(pairs)).rows]
    assert [row for row in rows if row in example] == [rows[0], rows[2]]

    first, mean = pairs[0], pairs[0].test.difference.value
    error = (mean - pairs[0].test.difference.interval.low) / 2.1314  # the 97.5 % quantile of t, 15 degrees of freedom
    for words in (
        f"by {mean:.3f} of the scale",
        f"a standard deviation of {4 * error:.3f}",
        f"{4 * error:.3f} / 4 = {error:.3f}, and t = {mean:.4f} / {error:.4f} = {mean / error:.2f} with",
        f"{100 * first.test.p:.0f} % of suites: p = {first.test.p:.3f}",
        f"won {first.test.won} tasks of {first.test.won + first.test.lost}",
        f"p (Holm) = {first.p_holm:.3f}",
    ):
        assert words in example
