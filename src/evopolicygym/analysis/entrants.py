"""Entrants and their names. An entrant is an agent with its model and settings, under one name of the user.

Runs whose agent, model and settings read the same are repeats of one entrant. Its name is the one that the user gave
(`--name`, the agent's in a suite, `--label`), else the agent's with the model that served it. Names are unique in a
collection of runs: entrants that would share one get a mark, and a note says what tells them apart.
"""

from __future__ import annotations

import hashlib
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, count, islice
from pathlib import Path
from string import ascii_lowercase
from types import MappingProxyType
from typing import Any, Final

from evopolicygym.errors import UserError
from evopolicygym.printable import one_line
from evopolicygym.run_record import RunRecord

RANDOM: Final = "random policy"
BY_HAND: Final = "by hand"
ENTERED: Final = "entered policy"
PUBLISHED: Final = " (paper)"
HASH_DIGITS: Final = 12
LONGEST: Final = 200  # characters of a name that a record of others may ask for
MOST_SETTINGS: Final = 100  # of an entrant that are compared one by one
SHOWN: Final = 20  # entrants that a message names, and settings that tell who an entrant is
NO_LABELS: Final[Mapping[str, str]] = MappingProxyType({})


@dataclass(frozen=True)
class RunAuthor:
    """Author of one run. ``settings``: what can change the agent's behaviour, its model among them. ``served``: the
    model that served the run if none was asked for, as far as it is recorded. ``is_agent``: not a person, and not a
    policy that was entered."""

    name: str | None
    agent: str
    settings: tuple[tuple[str, str], ...] = ()
    served: str | None = None
    is_agent: bool = True

    @property
    def identity(self) -> tuple[str, tuple[tuple[str, str], ...]]:
        return self.agent, self.settings


@dataclass(frozen=True)
class Entrant:
    """One entrant and its runs. ``name``: unique among all entrants of a collection. ``note``: how it differs from
    others that would have the same name; empty if there are none."""

    name: str
    agent: str
    settings: dict[str, str]
    runs: int
    note: str = ""

    @property
    def facts(self) -> str:
        """Agent, model and settings in words."""
        return ", ".join([self.agent, *islice((f"{name} {value}" for name, value in self.settings.items()), SHOWN)])


@dataclass(frozen=True)
class EntrantNames:
    """The names of all entrants of a collection of runs, by who played each run."""

    entrants: tuple[Entrant, ...]
    by_author: Mapping[RunAuthor, str]


def run_author(run: RunRecord) -> RunAuthor:
    """Return who played a run. Blanks of its name are plain ones: others look the same."""
    name = _given_name(run.name) if run.name and run.name.strip() else None
    if run.agent is None:
        return RunAuthor(name, ENTERED if run.entered else BY_HAND, is_agent=False)
    model = (("model", _short(one_line(run.agent.model))),) if run.agent.model else ()
    recorded = sorted(run.agent.settings.items())
    settings = [(_short(one_line(setting)), _value(setting, value)) for setting, value in recorded[:MOST_SETTINGS]]
    if rest := recorded[MOST_SETTINGS:]:
        settings.append((f"{len(rest)} more", hashlib.sha256(repr(rest).encode()).hexdigest()[:HASH_DIGITS]))
    return RunAuthor(name, _short(one_line(run.agent.name)), (*model, *settings), None if model else _served_model(run))


def _given_name(text: str) -> str:
    """Return a name or label as it is shown: blanks are plain ones, and what cannot be seen is escaped."""
    return _short(one_line(" ".join(text.split())))


def _served_model(run: RunRecord) -> str | None:
    """Return the model that served most turns of a run."""
    models = Counter(turn.model for turn in run.turns if turn.model)
    return _short(one_line(models.most_common(1)[0][0])) if models else None


def _value(name: str, value: Any) -> str:
    """Return a setting as text: a command without the folder of its program, a hash shortened."""
    if name == "command" and isinstance(value, list) and value:
        program, *arguments = map(str, value)
        return _short(one_line(" ".join([Path(program).name, *arguments])))
    return _short(one_line(str(value)[:HASH_DIGITS] if name == "sha256" else value))


def name_entrants(authors: Iterable[RunAuthor], labels: Mapping[str, str] = NO_LABELS) -> EntrantNames:
    """Name the entrants of a collection.

    Args:
        authors: Who played each run, in any order.
        labels: New names, by those that the collection would show without them.

    Raises:
        UserError: A label is for a name that no entrant has.
    """
    runs = Counter(authors)
    models = _served_models(runs)
    keys = {author: (_base(author, models), author.identity, models[author]) for author in runs}
    shown = _unique(keys.values())
    _check_labels(labels, {*shown.values(), *(base for base, *_ in keys.values())})
    given = {old: _allowed(_given_name(new)) for old, new in labels.items()}
    renamed = {key: given.get(shown[key], given.get(key[0], key[0])) for key in shown}
    keys = {author: (renamed[key], *key[1:]) for author, key in keys.items()}
    names = _unique(keys.values())
    by_author = {author: names[key] for author, key in keys.items()}
    members: dict[_Key, list[RunAuthor]] = defaultdict(list)
    for author, key in keys.items():
        members[key].append(author)
    notes = _notes(members)
    entrants = [
        Entrant(names[key], group[0].agent, _settings(key), sum(runs[author] for author in group), notes[key])
        for key, group in members.items()
    ]
    return EntrantNames(tuple(sorted(entrants, key=lambda entrant: entrant.name)), by_author)


_Key = tuple[str, tuple[str, tuple[tuple[str, str], ...]], str | None]  # wanted name, identity, served model


def _served_models(authors: Iterable[RunAuthor]) -> dict[RunAuthor, str | None]:
    """Return the model of each author that asked for none. One that is not recorded is that of the entrant's other
    runs, if they agree."""
    listed = list(authors)
    served: dict[Any, set[str]] = defaultdict(set)
    for author in listed:
        if author.served:
            served[author.identity, author.name].add(author.served)
    others = {key: next(iter(models)) for key, models in served.items() if len(models) == 1}
    return {author: author.served or others.get((author.identity, author.name)) for author in listed}


def _base(author: RunAuthor, models: Mapping[RunAuthor, str | None]) -> str:
    """Return the name that the entrant would have alone."""
    if not author.is_agent and author.name in (None, author.agent):
        return author.agent
    model = dict(author.settings).get("model") or models[author]
    command = dict(author.settings).get("command")
    name = author.name or _short(" ".join(part for part in (author.agent, model, command) if part))
    return _allowed(name)


def _allowed(name: str) -> str:
    """Return a name that is not that of an anchor or of a published row."""
    is_taken = name.casefold() in (RANDOM, BY_HAND, ENTERED) or name.casefold().endswith(PUBLISHED)
    return f"{name} (runs)" if is_taken else name


def _unique(keys: Iterable[_Key]) -> dict[_Key, str]:
    """Return a name for each key: the wanted one, or that with a mark if several want it."""
    wanted: dict[str, list[_Key]] = defaultdict(list)
    for key in dict.fromkeys(keys):
        wanted[key[0]].append(key)
    names = {members[0]: name for name, members in wanted.items() if len(members) == 1}
    for name, members in wanted.items():
        free = (marked for mark in _marks() if (marked := f"{name} [{mark}]") not in wanted)
        if len(members) > 1:
            names |= dict(zip(sorted(members, key=repr), free, strict=False))
    return names


def _marks() -> Iterator[str]:
    """Yield a, b, ..., z, a2, b2, ..."""
    for round_number in count(1):
        yield from (letter if round_number == 1 else f"{letter}{round_number}" for letter in ascii_lowercase)


def _settings(key: _Key) -> dict[str, str]:
    _, (_, settings), served = key
    return dict(settings) | ({"model": f"{served} (as served)"} if served else {})


def _notes(keys: Iterable[_Key]) -> dict[_Key, str]:
    """Return, for each entrant, the facts that differ between it and the others of its name."""
    alike: dict[str, list[_Key]] = defaultdict(list)
    for key in keys:
        alike[key[0]].append(key)
    notes: dict[_Key, str] = {}
    for group in alike.values():
        facts = {key: {"agent": key[1][0], **_settings(key)} for key in group}
        values: dict[str, list[str]] = defaultdict(list)
        for own_facts in facts.values():
            for name, value in own_facts.items():
                values[name].append(value)
        differing = [name for name, given in values.items() if len(given) < len(group) or len(set(given)) > 1]
        chosen = frozenset(differing)
        for key, own_facts in facts.items():
            set_here = [name for name in own_facts if name in chosen]
            set_by_others = islice((name for name in differing if name not in own_facts), SHOWN)
            shown = islice(chain(set_here, set_by_others), SHOWN)
            notes[key] = ", ".join(f"{name} {own_facts.get(name, 'default')}" for name in shown)
    return notes


def _check_labels(labels: Mapping[str, str], names: set[str]) -> None:
    for old in labels:
        if old not in names:
            entrants = sorted(names)
            more = f" and {len(entrants) - SHOWN} more" if len(entrants) > SHOWN else ""
            raise UserError(
                f"no entrant is called {old!r}: there is no run to give another label",
                f"The entrants are: {'; '.join(entrants[:SHOWN])}{more}.",
            )


def _short(name: str) -> str:
    """Return a name of bounded length. A long one ends with a hash of the whole: different ones stay different."""
    if len(name) <= LONGEST:
        return name
    return f"{name[:LONGEST]}... ({hashlib.sha256(name.encode()).hexdigest()[:HASH_DIGITS]})"


def with_names(runs: Sequence[RunRecord], names: EntrantNames) -> list[RunRecord]:
    """Return the runs with the unique names of their entrants."""
    return [run.model_copy(update={"name": names.by_author[run_author(run)]}) for run in runs]


def name_runs(
    runs: Sequence[RunRecord], labels: Mapping[str, str] = NO_LABELS
) -> tuple[list[RunRecord], tuple[Entrant, ...]]:
    """Return the runs with unique names of their entrants, and the entrants. Naming them again changes nothing."""
    names = name_entrants(map(run_author, runs), labels)
    return with_names(runs, names), names.entrants


def name_alone(run: RunRecord) -> str:
    """Return the name that the entrant of a run has where there are no other runs."""
    return name_entrants([run_author(run)]).entrants[0].name


def entrant(run: RunRecord) -> str:
    """Return the name of the entrant of a run that ``name_runs`` gave one."""
    assert run.name is not None
    return run.name
