"""Boards, task tables and aggregates over whole sets of runs."""

from __future__ import annotations

import time

import numpy as np
import pytest
from synthetic_records import fingerprint, suite, synthetic_run

from evopolicygym.analysis.leaderboard.boards import SameId, differences, split_by_id
from evopolicygym.analysis.leaderboard.build import MAX_ENTRANTS, PaperRows, leaderboard
from evopolicygym.analysis.leaderboard.text_tables import other_aggregates_table, task_scores_table
from evopolicygym.analysis.stats.estimates import ONE_RUN
from evopolicygym.analysis.stats.measured import coverage, misleading_rate, pooled_coverage
from evopolicygym.errors import UserError
from evopolicygym.reference import paper
from evopolicygym.reference.anchors import Anchor, AnchorFile, TaskAnchors, stored_anchors
from evopolicygym.reference.scales import scales

TASK = "core16/acrobot"
DRAWS = 300


def anchor_file(random=((0.0, 1.0), (1.0, 0.0)), zero=(2.0, 2.0), tasks=(TASK,), splits="paper", **facts) -> AnchorFile:
    mark = fingerprint("", splits, 0, 0, **facts)
    conditions = {name: value for name, value in mark.items() if name not in ("budget", "heldout_cases", "task")}
    anchors = {
        task: TaskAnchors(
            fingerprint={**conditions, "task": task},
            heldout_cases=len(zero),
            train_cases=1,
            random=Anchor(returns=[list(row) for row in random]),
            zero=Anchor(returns=[list(zero)]),
            constant=Anchor(returns=[list(zero)], action=0),
            starter=Anchor(returns=[list(zero)]),
        )
        for task in tasks
    }
    return AnchorFile(schema_version=1, command="made up", splits_id=splits, tasks=anchors)


def board(runs, files=(), with_paper=False):
    (only,) = leaderboard(runs, files, with_paper, DRAWS).boards
    return only


def rows(runs, files=(), with_paper=False):
    (table,) = board(runs, files, with_paper).tasks
    return {row.entrant: row for row in table.rows}


def test_runs_of_one_entrant_are_averaged():
    table = rows(
        [synthetic_run((1.0, 3.0)), synthetic_run((5.0, 7.0)), synthetic_run((0.0, 1.0), agent="kimi", model=None)]
    )
    assert table["codex m"].score == 4.0
    assert table["codex m"].runs == 2
    assert table["codex m"].scope == "runs and cases"
    assert table["kimi"].scope == "cases only: one run"
    assert (table["codex m"].rank, table["kimi"].rank) == (1, 2)


def test_entrants_differ_by_settings_and_runs_by_hand_are_one():
    runs = [synthetic_run(), synthetic_run(settings={"effort": "high"}), synthetic_run(agent=None)]
    assert set(rows(runs)) == {"codex m [a]", "codex m [b]", "by hand"}


@pytest.mark.parametrize("name", ["random policy", "by hand", "GPT-5.5 (paper)"])
def test_no_agent_takes_the_name_of_another_kind_of_entrant(name):
    assert set(rows([synthetic_run(agent=name, model=None)])) == {f"{name} (runs)"}


def test_a_measured_random_policy_is_an_entrant():
    table = rows([synthetic_run((3.0, 3.0))], [anchor_file()])
    assert table["random policy"].rank == 2
    assert table["random policy"].score == 0.5
    assert table["codex m"].paper_normalised == 1.0
    assert table["codex m"].rank_score == 1.0


@pytest.mark.parametrize("facts", [{"packages": {"numpy": "1"}}, {"splits": "sealed:x"}])
def test_anchors_that_were_measured_otherwise_are_not_used_and_the_difference_is_named(facts):
    (table,) = board([synthetic_run((3.0, 3.0))], [anchor_file(**facts)]).tasks
    assert [row.entrant for row in table.rows] == ["codex m"]
    assert table.rows[0].rank_score is None
    assert table.rows[0].paper_normalised is None
    assert next(iter(facts)) in table.no_anchors


@pytest.mark.parametrize(("returns", "beats"), [((2.0, 2.0), False), ((2.0, 2.5), True)])
def test_entrants_below_the_best_trivial_policy_are_marked(returns, beats):
    table = rows([synthetic_run(returns)], [anchor_file()])
    assert table["codex m"].beats_trivial is beats
    assert table["random policy"].beats_trivial is None


def test_without_an_ok_submit_the_failure_return_counts():
    table = rows([synthetic_run((0.0, 0.0)), synthetic_run(None, kind="no_ok_submit", failure_return=-9.0)])
    assert table["codex m"].score == -4.5
    assert table["codex m"].flags == ("no ok submit (1 of 2)",)


def test_unfinished_runs_are_missing_and_named():
    made = leaderboard([synthetic_run(), synthetic_run(None, status="open", name="young")], [], draws=DRAWS)
    assert made.missing == 1
    assert made.boards[0].tasks[0].missing[0].run == "young"


def test_another_budget_is_another_board_and_the_difference_is_named():
    first, second = leaderboard([synthetic_run(), synthetic_run(), synthetic_run(budget=64)], [], draws=DRAWS).boards
    assert first.differs == ()
    assert second.differs == ("budget: 64, not 128",)


def test_a_board_is_no_patchwork_of_simulator_versions():
    """Each of two entrants has all tasks, under versions of their own, and no version has more runs of a task."""
    old = {task: {"packages": {"numpy": "1"}} for task in paper.core16()}
    runs = suite({"a": 0.5}, 2) + suite({"b": 0.5}, 2, facts=old)
    made = leaderboard(runs, [], draws=10).boards
    assert [{row.entrant for table in board.tasks for row in table.rows} for board in made] in (
        [{"a m"}, {"b m"}],
        [{"b m"}, {"a m"}],
    )
    assert all(board.aggregates[0].tasks == len(board.aggregates[0].standings) * 16 for board in made)
    # Runs decide between versions over all tasks together; a task that was played under another one alone joins them.
    tasks = paper.core16()[:4]
    runs = suite({"a": 0.5}, 2, tasks=tasks[:3]) + suite({"a": 0.5}, 3, tasks=tasks[2:], facts=old)
    sizes = [
        {table.task: table.rows[0].runs for table in board.tasks} for board in leaderboard(runs, [], draws=10).boards
    ]
    assert sorted(map(len, sizes)) == [1, 4]


def test_very_many_versions_of_a_task_do_not_take_for_ever():
    """The work grew with the cube of their number: a thousand records took minutes."""
    ids = [SameId("core16/a", f"c{number:03d}", 1 + (number < 2), (("p", str(number)),)) for number in range(500)]
    others = [SameId("core16/b", f"d{number:03d}", 1, (("p", str(number)),)) for number in range(3)]
    began = time.process_time()
    chosen = list(split_by_id([*ids, *others]))
    assert time.process_time() - began < 4.0
    assert [len(each) for each in chosen] == [2, 2, 2, *[1] * 497]
    assert chosen[0] == {("core16/a", "c000"), ("core16/b", "d000")}, "versions that agree share a board"
    assert len(set().union(*chosen)) == 503


def test_another_simulator_version_is_another_board():
    runs = [synthetic_run(), synthetic_run(), synthetic_run(facts={"packages": {"numpy": "1"}})]
    first, second = leaderboard(runs, [], draws=DRAWS).boards
    assert len(first.tasks[0].rows) == 1
    assert second.differs == ("packages.numpy: 1, not 2",)


@pytest.mark.parametrize(
    ("how", "reason"),
    [
        ({"publishable": False}, "isolation below B"),
        ({"network": "open"}, "network was open"),
        ({"settings": {"hosts": ["example.org"]}}, "more hosts: example.org"),
        ({"settings": {"shown": ["/data"]}}, "more files: /data"),
    ],
)
def test_weak_isolation_and_an_open_network_are_apart_however_many(how, reason):
    first, second = leaderboard([synthetic_run(), synthetic_run(**how), synthetic_run(**how)], [], draws=DRAWS).boards
    assert not first.apart
    assert reason in second.apart[0]


@pytest.mark.parametrize("own_models", ["allowed", "forbidden"])
def test_the_papers_rows_mix_with_runs_like_the_papers(own_models):
    made = board(suite({"codex": 0.5}, 2, tasks=[TASK], options={"own_models": own_models}), with_paper=True)
    assert made.paper_rows is PaperRows.MIXED
    assert {row.entrant for row in made.tasks[0].rows} == {"codex m", *(f"{name} (paper)" for name in agents())}


@pytest.mark.parametrize(
    "how",
    [{"splits": "sealed:x"}, {"budget": 64}, {"cases": 8}, {"options": {"text": "full"}},
     {"options": {"variant": "shifted"}}, {"options": {"feedback": "video"}}, {"options": {"feedback": "score"}},
     {"publishable": False}, {"network": "open"}],
)  # fmt: skip
def test_the_papers_rows_stand_apart_from_all_others(how):
    made = board(suite({"codex": 0.5}, 2, tasks=[TASK], **{"cases": 32, **how}), with_paper=True)
    assert made.paper_rows is PaperRows.APART
    assert {row.entrant for row in made.tasks[0].rows} == {"codex m"}
    assert made.published == {TASK: paper.published()[TASK]}


def test_boards_say_their_conditions_and_how_they_differ():
    """This includes runs from before there was a choice. The key of a variant, another one for each task, splits no
    board."""
    old = synthetic_run(options={"text": "full"})
    hidden = [
        synthetic_run(task=task, options={"variant": "disguised", "text": "blind"}, name=task,
                      facts={"variant": {"name": "disguised", "key": task}})
        for task in ("core16/ant", "core16/acrobot")
    ]  # fmt: skip
    made = leaderboard([synthetic_run(), synthetic_run(), synthetic_run(), old, *hidden], [], draws=DRAWS).boards
    conditions = [(board.conditions["text"], board.conditions["variant"]) for board in made]
    assert conditions == [("brief", "plain"), ("blind", "disguised"), ("full", "plain")]
    assert made[2].differs == ("text: full, not brief",)
    assert len(made[1].tasks) == 2 and "variant: disguised, not plain" in made[1].differs
    assert not any(difference.startswith("variant.") for difference in made[1].differs)


def test_no_interval_is_printed_where_nothing_varied():
    (board,) = leaderboard([synthetic_run([5.0, 5.0], name=name) for name in "ab"], [], draws=DRAWS).boards
    table = task_scores_table(board.tasks[0])
    row = dict(zip(table.columns, table.rows[0], strict=True))
    assert row["95% interval"] == "-" and "nothing varied" in row["notes"]


def test_success_on_every_case_has_an_interval_with_a_width():
    runs = [synthetic_run([1.0] * 8, "core16/door-key", name=name) for name in "abc"]
    interval = rows(runs)["codex m"].interval
    assert interval.high == 1.0 and 0.4 < interval.low < 0.9


def test_differences_name_keys_by_short_hashes():
    first, second = ({"variant": {"name": "shifted", "key": digit * 64}} for digit in "ab")
    assert differences(first, second) == [f"variant.key: {'a' * 12}, not {'b' * 12}"]
    assert differences(first, {}) == ["variant: shifted, not plain"]


@pytest.mark.parametrize(
    ("options", "words"),
    [({}, ""), ({"text": "full"}, "full text"), ({"variant": "disguised", "text": "blind"}, "disguised"),
     ({"own_models": "forbidden", "feedback": "score"}, "own models forbidden, feedback score")],
)  # fmt: skip
def test_conditions_in_words(options, words):
    assert synthetic_run(options=options).options.conditions() == words


@pytest.fixture(scope="module")
def beside_the_paper():
    """Runs whose fingerprints are those of the stored anchors."""
    facts = {task: anchors.fingerprint for task, anchors in stored_anchors().tasks.items()}
    return board(suite({"codex": 0.9}, 2, facts=facts), [stored_anchors()], with_paper=True)


def test_beside_the_paper_there_are_its_agents_ours_and_the_measured_random_policy(beside_the_paper):
    (core, *_) = beside_the_paper.aggregates
    names = {row.entrant for row in core.standings}
    assert names == {"codex m", "random policy", *(f"{name} (paper)" for name in agents())}
    table = {row.entrant: row for row in core.standings}
    assert table["random policy"].normalised.value == 0.0
    assert table["random policy"].unclipped < -0.1
    assert table["random policy"].rank == 6
    assert table["GPT-5.5 (paper)"].normalised.interval is None
    assert 0.8 < table["GPT-5.5 (paper)"].paper_normalised < 1.0


def test_rows_of_the_paper_that_doing_nothing_beats_are_marked(beside_the_paper):
    marked = {
        table.task: [row.entrant for row in table.rows if row.beats_trivial is False]
        for table in beside_the_paper.tasks
    }
    assert set(marked["core16/ant"]) >= {f"{name} (paper)" for name in agents()}
    assert marked["core16/pusher"] == ["DeepSeek-V4-Pro (paper)"]
    assert marked["core16/reacher"] == []


def agents():
    return [name for name in paper.published()[TASK] if name != "random"]


@pytest.fixture(scope="module")
def whole():
    return board(suite({"good": 0.9, "same": 0.9, "bad": 0.3}, 3))


def standings(made, name="core16"):
    (aggregate,) = [aggregate for aggregate in made.aggregates if aggregate.name == name]
    return {row.entrant: row for row in aggregate.standings}


def test_the_primary_aggregate_is_the_macro_mean_of_fixed_scales(whole):
    runs = [run for run in suite({"good": 0.9, "same": 0.9, "bad": 0.3}, 3) if run.agent.name == "good"]
    scores = [(scales()[run.task.id], run.outcome.heldout.mean) for run in runs]
    expected = [(score - scale.low) / scale.unit for scale, score in scores]
    good = standings(whole)["good m"]
    assert good.normalised.value == pytest.approx(np.clip(expected, 0.0, 1.0).mean(), rel=1e-12)
    assert good.unclipped == pytest.approx(np.mean(expected), rel=1e-12)
    assert good.unclipped > good.normalised.value


def test_a_new_entrant_changes_no_other_score():
    runs = suite({"old": 0.7}, 2)
    alone = standings(board(runs))["old m"]
    joined = standings(board(runs + suite({"new": 3.0}, 2, seed=9)))["old m"]
    assert joined.normalised == alone.normalised
    assert (alone.rank, joined.rank) == (1, 2)


def test_standings_have_rank_intervals_and_probabilities(whole):
    table = standings(whole)
    assert table["bad m"].places.first == table["bad m"].places.last == 3
    assert {table[name].places.last for name in ("good m", "same m")} == {2}
    assert 0.0 < table["bad m"].p_first < 0.001
    assert sum(row.p_first for row in table.values()) == pytest.approx(1.0)
    assert table["good m"].normalised.interval.low > 0.7 > table["bad m"].normalised.interval.high


def test_summaries_beside_the_mean(whole):
    good = standings(whole)["good m"]
    assert good.interquartile_mean.value == pytest.approx(0.9, abs=0.1)
    assert good.interquartile_mean.interval.low < good.interquartile_mean.value < good.interquartile_mean.interval.high
    assert good.optimality_gap.value == pytest.approx(0.1, abs=0.1)
    assert (good.profile[0].value, good.profile[-1].value) == (1.0, 0.0) and 0.8 < good.median < 1.0


def test_pooled_summaries_of_a_few_tasks_have_no_interval_or_a_warning():
    tasks = paper.core16()
    for count, has_interval in ((3, False), (4, True)):
        aggregates = board(suite({"a": 0.5, "b": 0.4}, 2, tasks=tasks[:count])).aggregates
        shared = next(aggregate for aggregate in aggregates if aggregate.tasks == count and aggregate.standings)
        for row in shared.standings:
            assert (row.interquartile_mean.interval is not None) == (row.optimality_gap.interval is not None)
            assert (row.interquartile_mean.interval is not None) == has_interval
        assert (
            "interquartile mean: 95 % intervals from so few runs" in other_aggregates_table(shared).title
        ) == has_interval
    lowest = pooled_coverage("interquartile_mean", 4, 2).low
    assert lowest < pooled_coverage("interquartile_mean", 16, 2).low
    assert f"in {100 * lowest:.0f} to " in other_aggregates_table(shared).title


def test_intervals_of_few_runs_state_their_measured_coverage(whole):
    assert whole.tasks[0].rows[0].coverage.low < 0.9
    assert not whole.tasks[0].rows[0].coverage.is_nominal
    assert coverage(16, 5).is_nominal and not coverage(1, 5).is_nominal
    assert coverage(16, 1) is None
    assert coverage(11, 4) == coverage(4, 3) and coverage(1, 200) == coverage(1, 10)


def test_probability_of_improvement_is_about_runs(whole):
    good, same = standings(whole)["good m"], standings(whole)["same m"]
    sure = good.p_improvement["bad m"]
    assert sure.value == 1.0 and 0.75 < sure.interval.low < 0.9 and sure.interval.high == 1.0
    assert good.p_improvement["same m"].value + same.p_improvement["good m"].value == pytest.approx(1.0)


def test_single_runs_are_not_tested_on_a_task_but_over_tasks():
    """Six equal entrants, one run per cell: no p, no P(first), no P(improvement), and every place is possible."""
    made = board(suite(dict.fromkeys("abcdef", 0.5), 1))
    for table in made.tasks:
        assert table.caution == ONE_RUN and table.tests == 0
        assert all(row.p_first is None and (row.places.first, row.places.last) == (1, 6) for row in table.rows)
    core = made.aggregates[0]
    assert core.caution == ONE_RUN
    for row in core.standings:
        assert row.normalised.interval is None and row.p_first is None
        assert set(row.p_improvement.values()) == {None}
        assert (row.places.first, row.places.last) == (1, 6)
        assert row.rank_score.interval.low < 0.5 < row.rank_score.interval.high
    assert len(core.differences) == 15
    assert all(pair.p_holm >= pair.test.p > 0.0 and pair.test.won + pair.test.lost == 16 for pair in core.differences)


def test_one_run_per_cell_still_finds_a_large_difference_over_tasks():
    core = board(suite({"good": 0.9, "bad": 0.4}, 1)).aggregates[0]
    (pair,) = core.differences
    assert (pair.first, pair.second) == ("good m", "bad m")
    assert pair.p_holm < 0.001 and pair.test.difference.interval.low > 0.3
    assert [row.places.last for row in core.standings] == [1, 2]


def test_an_entrant_with_one_run_among_others_is_named():
    runs = suite({"many": 0.5}, 3, tasks=[TASK]) + suite({"one": 0.9}, 1, tasks=[TASK])
    (table,) = board(runs).tasks
    assert table.caution == "one run of one m: how its runs differ is unknown"
    assert all(row.p_first is None for row in table.rows)


def test_two_runs_cannot_prove_the_first_place():
    runs = [synthetic_run([value] * 4, agent=agent, name=f"{agent}{n}") for agent, value in (("a", 1.0), ("b", 0.0))
            for n in range(2)]  # fmt: skip
    table = rows(runs)
    assert table["a m"].p_first == pytest.approx(15 / 16) and table["b m"].p_first == pytest.approx(1 / 16)
    assert (table["a m"].places.first, table["a m"].places.last) == (1, 2)


def test_ranks_and_first_places_of_few_runs_say_how_often_equal_means_give_them():
    (table,) = board(suite({"good": 0.9, "bad": 0.1}, 3, tasks=[TASK])).tasks
    assert [(row.places.first, row.places.last) for row in table.rows] == [(1, 1), (2, 2)]
    words = "with so few runs, {} came from equal means in up to {} % of simulations"
    rates = {"ranks that differ": misleading_rate("p", 3), "P(first) above 0.95": misleading_rate("first", 3)}
    assert table.caution == "; ".join(words.format(name, round(100 * rate)) for name, rate in rates.items())
    (table,) = board(suite({"one": 0.5, "other": 0.5}, 3, tasks=[TASK])).tasks
    assert table.caution is None


def test_intervals_stay_within_the_possible_returns():
    runs = [synthetic_run([-90.0, -5.0, -60.0], name=name) for name in "ab"] + [synthetic_run([-1.0, -2.0, -300.0])]
    interval = rows(runs)["codex m"].interval
    assert -500.0 <= interval.low < interval.high == 0.0


def test_runs_that_selected_the_same_policy_are_counted():
    table = board([synthetic_run([1.0, 2.0, 4.0], name=name) for name in "abc"]).tasks[0]
    assert table.rows[0].policies == 1
    assert "3 runs, 1 distinct selected policy" in task_scores_table(table).rows[0][-1]


def test_families_and_demands_are_summed_up_too(whole):
    assert [aggregate.name for aggregate in whole.aggregates] == ["core16", *paper.families(), *paper.demands()]
    families = [standings(whole, name)["good m"].normalised.value for name in paper.families()]
    assert np.mean(families) == pytest.approx(standings(whole)["good m"].normalised.value)


def test_an_entrant_without_all_tasks_is_not_ranked():
    runs = suite({"whole": 0.5}, 2) + suite({"part": 0.9}, 2, tasks=paper.core16()[:5])
    made = board(runs)
    (core,) = [aggregate for aggregate in made.aggregates if aggregate.name == "core16"]
    assert [row.entrant for row in core.standings] == ["whole m"]
    assert core.incomplete == {"part m": 5}
    assert core.standings[0].rank_score is None
    assert set(standings(made, "gym_box2d")) == {"whole m", "part m"}


def test_a_board_without_all_tasks_is_ranked_over_those_that_all_entrants_share():
    tasks = paper.core16()
    made = board(suite({"many": 0.5}, 2, tasks=tasks[:5]) + suite({"few": 0.9}, 2, tasks=tasks[2:7]))
    shared = made.aggregates[0]
    assert (shared.name, shared.tasks) == ("shared tasks", 3)
    assert [row.entrant for row in shared.standings][:2] == ["few m", "many m"]
    scores = {table.task: {row.entrant: row.normalised for row in table.rows} for table in made.tasks}
    expected = np.mean([scores[task]["few m"] for task in tasks[2:5]])
    assert shared.standings[0].unclipped == pytest.approx(expected)
    assert {row.entrant: row.score for row in made.costs}["few m"] == shared.standings[0].normalised


@pytest.mark.parametrize("tasks", [paper.core16()[:1], next(iter(paper.families().values()))])
def test_shared_tasks_are_no_group_of_their_own_if_they_are_few_or_another_group(tasks):
    made = board(suite({"one": 0.5, "two": 0.9}, 2, tasks=tasks))
    assert "shared tasks" not in [whole.name for whole in made.aggregates]


def test_a_task_without_a_scale_has_no_normalised_score():
    table = rows([synthetic_run(task="LunarLander-v3"), synthetic_run(task="LunarLander-v3", agent="kimi")])
    assert table["codex m"].normalised is None
    assert board([synthetic_run(task="LunarLander-v3")]).aggregates == ()


def test_the_same_runs_in_another_order_give_the_same_board():
    runs = suite({"one": 0.6, "other": 0.5}, 2, tasks=paper.core16()[:2])
    assert leaderboard(runs, [], draws=DRAWS).boards[0].tasks[0].rows[0].score == pytest.approx(
        leaderboard(runs[::-1], [], draws=DRAWS).boards[0].tasks[0].rows[0].score, rel=1e-15
    )


def test_too_many_entrants_are_refused():
    runs = [synthetic_run(agent=f"agent{number}") for number in range(MAX_ENTRANTS + 1)]
    with pytest.raises(UserError, match="201 entrants; a leaderboard takes at most 200"):
        leaderboard(runs, [])
