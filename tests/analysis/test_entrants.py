"""Names of entrants: the user's, unique in a collection, with what tells two of one name apart; and the provenance."""

from __future__ import annotations

from datetime import timedelta
from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from synthetic_records import OPENED, synthetic_run

from evopolicygym.analysis.entrants import RunAuthor, entrant, name_entrants, name_runs
from evopolicygym.analysis.leaderboard.build import leaderboard
from evopolicygym.analysis.provenance import machine_class, provenance
from evopolicygym.errors import UserError
from evopolicygym.run_record import RunRecord, TurnRecord


def run_of(name: str | None = None, served: tuple[str | None, ...] = (), **facts: object) -> RunRecord:
    turns = [
        TurnRecord(
            exit_code=0, wall_s=1.0, submissions=1, failure=None, stop=False, model=model, usage=None, price=None
        )
        for model in served
    ]
    return synthetic_run(**facts).model_copy(update={"name": name, "turns": turns})


def names(*runs: RunRecord, **labels: str) -> list[str]:
    return [entrant(run) for run in name_runs(runs, labels)[0]]


def test_the_users_name_goes_before_agent_and_model():
    assert names(run_of("mine"), run_of(), run_of(agent=None), run_of("alice", agent=None)) == [
        "mine",
        "codex m",
        "by hand",
        "alice",
    ]


def test_without_a_model_the_one_that_served_most_turns_is_named():
    assert names(run_of(model=None, served=("opus", "haiku", "opus"))) == ["codex opus"]
    assert names(run_of(model="sonnet", served=("claude-sonnet-4",))) == ["codex sonnet"]


def test_a_run_whose_model_is_unknown_belongs_to_the_entrants_other_runs():
    assert names(run_of(model=None, served=("opus",)), run_of(model=None)) == ["codex opus"] * 2


def test_runs_that_two_models_served_are_two_entrants():
    assert set(names(run_of(model=None, served=("opus",)), run_of(model=None, served=("sonnet",)))) == {
        "codex opus",
        "codex sonnet",
    }


def test_entrants_of_one_name_get_marks_and_notes_say_what_tells_them_apart():
    runs = [run_of("mine", settings={"version": version, "effort": "high"}) for version in ("1", "2", "2")]
    named, entrants = name_runs(runs)
    assert [entrant(run) for run in named] == ["mine [a]", "mine [b]", "mine [b]"]
    assert [(made.name, made.runs, made.note) for made in entrants] == [
        ("mine [a]", 1, "version 1"),
        ("mine [b]", 2, "version 2"),
    ]


def test_marks_do_not_depend_on_the_order_of_runs():
    runs = [run_of("mine", settings={"version": version}) for version in "123"]
    namings = {
        tuple(sorted(zip((run.id for run in order), names(*order), strict=True))) for order in permutations(runs)
    }
    assert len(namings) == 1


def test_labels_rename_by_the_name_or_by_the_marked_name():
    runs = [run_of("mine", settings={"version": "1"}), run_of("mine", settings={"version": "2"}), run_of("other")]
    assert names(*runs, **{"mine [b]": "Ours", "other": "Baseline"}) == ["mine", "Ours", "Baseline"]
    assert names(*runs, mine="Ours") == ["Ours [a]", "Ours [b]", "other"]


def test_a_label_joins_runs_of_one_agent_under_two_names_and_no_others():
    assert names(run_of("first"), run_of("second"), first="both", second="both") == ["both", "both"]
    assert len(set(names(run_of("first"), run_of("second", model="x"), first="both", second="both"))) == 2


def test_a_label_of_an_unknown_entrant_is_an_error_that_lists_the_entrants():
    with pytest.raises(UserError, match="no entrant is called 'nobody'") as refused:
        names(run_of("mine"), nobody="x")
    assert "mine" in (refused.value.remedy or "")


@pytest.mark.parametrize("label", ["random policy", "Random\u2003Policy", "by hand", "GPT-5.5 (paper)"])
def test_a_label_is_never_that_of_an_anchor_or_a_published_row(label):
    assert names(run_of("mine"), run_of("other"), mine=label) == [f"{' '.join(label.split())} (runs)", "other"]


def test_a_label_is_cleaned_like_a_name():
    """Two labels that look the same are the same, and none takes a million letters."""
    (long,) = names(run_of("mine"), mine="x" * 1_000_000)
    assert len(long) < 300
    assert names(run_of("mine"), mine="a\u200bb\n\tc") == ["a\\u200bb c"]
    first, second = names(run_of("first"), run_of("second", model="x"), first="one two", second="one\u00a0\ntwo")
    assert {first, second} == {"one two [a]", "one two [b]"}


def test_boards_use_the_names_and_ids_do_not_depend_on_them():
    made = leaderboard([run_of("mine"), run_of("yours")], [])
    assert [row.entrant for row in made.boards[0].tasks[0].rows] == ["mine", "yours"]
    assert len({table.comparable_id for board in made.boards for table in board.tasks}) == 1


TEXTS = st.text(st.sampled_from("ab [1]"), min_size=1, max_size=5)
AUTHORS = st.builds(
    RunAuthor,
    name=st.none() | TEXTS,
    agent=st.sampled_from(["x", "by hand", "random policy"]),
    settings=st.lists(st.tuples(st.just("s"), TEXTS), max_size=1).map(tuple),
    served=st.none() | TEXTS,
)


@given(st.lists(AUTHORS, min_size=1, max_size=8), st.dictionaries(st.sampled_from("abc"), TEXTS, max_size=2))
def test_a_name_is_of_one_identity_and_naming_again_changes_nothing(authors, wanted):
    taken = {made.name for made in name_entrants(authors).entrants}
    made = name_entrants(authors, {old: new for old, new in wanted.items() if old in taken})
    by_name = {}
    for author in authors:
        by_name.setdefault(made.by_author[author], set()).add(author.identity)
    assert all(len(identities) == 1 for identities in by_name.values())
    assert len({each.name for each in made.entrants}) == len(made.entrants)
    assert sum(each.runs for each in made.entrants) == len(authors)


def test_names_that_were_given_stay_when_runs_are_named_again():
    runs = [run_of(), run_of("mine", settings={"a": "1"}), run_of("mine"), run_of(agent=None), run_of("random policy")]
    once = name_runs(runs)[0]
    assert [entrant(run) for run in name_runs(once)[0]] == [entrant(run) for run in once]


def test_provenance_states_what_all_runs_have_in_common_and_lists_what_differs():
    later = run_of(splits="sealed:" + "ab" * 32, budget=16)
    later = later.model_copy(update={"times": later.times.model_copy(update={"opened": OPENED + timedelta(days=3)})})
    line = provenance([run_of(), later]).line
    assert line.startswith("runs of 2026-07-02 to 2026-07-05; played by evopolicygym 0; protocol 1; budget 16, 128; ")
    assert "text brief; splits paper, sealed:abababab; isolation policy A and agent A; machine not recorded" in line


def test_the_class_of_a_machine_names_its_vectors_libc_and_python():
    facts = {"machine": "x86_64", "cpu_features": ["avx", "avx2", "fma"], "libc": "glibc 2.39", "python": "3.11"}
    assert machine_class(facts) == "x86_64 avx2 glibc 2.39 Python 3.11"
    assert machine_class({"cpu_features": 7, "machine": "riscv64"}) == "riscv64"


@pytest.mark.parametrize("name", ["random policy", "Random\u00a0Policy", " random\u2003policy\n", "by  hand"])
def test_no_name_looks_like_an_anchor(name):
    assert names(run_of(name)) == [f"{' '.join(name.split())} (runs)"]
    assert names(run_of("codex (Paper)\u00a0")) == ["codex (Paper) (runs)"]
    assert names(run_of("random policies")) == ["random policies"], "control"


def test_facts_of_a_forged_record_take_a_bounded_line():
    run = synthetic_run().model_copy(update={"evopolicygym": "1\n\x1b[2J" * 100_000})
    ids = run.ids.model_copy(update={"machine": {"machine": "x" * 1_000_000}, "splits_id": "s" * 1_000_000})
    line = provenance([run.model_copy(update={"ids": ids})]).line
    assert len(line) < 1_000 and line.isprintable() and r"1\n\x1b[2J" in line


def test_many_settings_are_compared_by_their_hash():
    many = {f"setting {number:05}": "x" for number in range(20_000)}
    runs = [synthetic_run(name=f"r{number}", settings=many | {"z": number}) for number in (1, 1, 2)]
    entrants = name_runs(runs)[1]
    assert [entrant.runs for entrant in entrants] in ([1, 2], [2, 1])
    assert all(len(entrant.settings) <= 102 and "more" in entrant.note for entrant in entrants)
