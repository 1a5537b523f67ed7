"""Provenance: when, with what and under which conditions the runs of a table, page or figure were played."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from datetime import UTC, date
from typing import Any, Final

from evopolicygym.printable import one_line
from evopolicygym.run_record import Options, RunRecord, conditions_text

WIDE_VECTORS: Final = ("avx512", "avx2", "sve", "neon", "asimd", "avx")  # the first that a CPU has names its class
UNKNOWN_MACHINE: Final = "not recorded"
SEALED: Final = "sealed:"
KEY_DIGITS: Final = 8
LONGEST: Final = 100  # characters of one value
MOST: Final = 4  # different values that are listed
TITLES: Final = {"dates": "runs of", "versions": "played by evopolicygym"}

COLUMNS: Final = {  # of tables with one row per run; budget and conditions have columns of their own
    "dates": "opened",
    "versions": "evopolicygym",
    **{name: name for name in ("protocol", "text", "splits", "isolation", "machine")},
}


@dataclass(frozen=True)
class Provenance:
    """Facts that the runs of a table share, or each value that occurs, sorted. ``dates``: first and last day on
    which a run was opened (UTC). ``versions``: of EvoPolicyGym. ``conditions``: variant, own models and feedback, where
    they are not the default ones. ``isolation``: levels of policy and agent.
    ``machine``: kind of CPU, libc and Python."""

    runs: int
    dates: tuple[str, ...]
    versions: tuple[str, ...]
    protocol: tuple[str, ...]
    budget: tuple[str, ...]
    text: tuple[str, ...]
    conditions: tuple[str, ...]
    splits: tuple[str, ...]
    isolation: tuple[str, ...]
    machine: tuple[str, ...]

    @property
    def line(self) -> str:
        """All of it in one line, such as a caption."""
        values = {field.name: getattr(self, field.name) for field in fields(self) if field.name != "runs"}
        return "; ".join(
            f"{TITLES.get(name, name)} {_listed(listed, name)}" for name, listed in values.items() if any(listed)
        )

    def row(self) -> dict[str, str]:
        """Return the columns that say where a row of a table comes from."""
        return {column: _listed(getattr(self, name), name) for name, column in COLUMNS.items()}


def _listed(values: tuple[str, ...], name: str) -> str:
    if name == "dates":
        return " to ".join(values)
    values = tuple(value or "default" for value in values)
    more = f" and {len(values) - MOST} more" if len(values) > MOST else ""
    return ", ".join(values[:MOST]) + more


def provenance(runs: Iterable[RunRecord]) -> Provenance:
    """Return where the runs of a table come from."""
    return merge(map(_of_run, runs))


def _of_run(run: RunRecord) -> Provenance:
    isolation = run.isolation
    agent = "no agent" if run.entered else f"agent {isolation.agent}"
    protocol = run.ids.fingerprint.get("protocol", run.imported.words if run.imported else "unknown")
    return Provenance(
        runs=1,
        dates=(run.times.opened.astimezone(UTC).date().isoformat(),),
        versions=(_short(run.evopolicygym),),
        protocol=(_short(protocol),),
        budget=(str(run.budget.total),),
        text=(run.options.text,),
        conditions=(_other_conditions(run.options),),
        splits=(_short(_splits(run.ids.splits_id)),),
        isolation=(f"policy {isolation.policy} and {agent}",),
        machine=(_short(machine_class(run.ids.machine)),),
    )


def _short(text: object) -> str:
    """Return a text of bounded length in one line: records of others may hold anything."""
    return one_line(text)[:LONGEST]


def merge(parts: Iterable[Provenance]) -> Provenance:
    """Return the provenance of all runs of several parts."""
    listed = list(parts)
    names = [field.name for field in fields(Provenance) if field.name != "runs"]
    values = {name: sorted({value for part in listed for value in getattr(part, name)}) for name in names}
    values["budget"].sort(key=int)
    dates = values.pop("dates")
    return Provenance(
        runs=sum(part.runs for part in listed),
        dates=tuple(dict.fromkeys([dates[0], dates[-1]])) if dates else (),
        **{name: tuple(sorted_values) for name, sorted_values in values.items()},
    )


def _other_conditions(options: Options) -> str:
    return conditions_text("brief", options.variant, options.own_models, options.feedback)


def _splits(splits_id: str) -> str:
    return splits_id[: len(SEALED) + KEY_DIGITS] if splits_id.startswith(SEALED) else splits_id


def machine_class(facts: Mapping[str, Any]) -> str:
    """Return the class of a machine in short: what can change the last bits of a return."""
    if not facts:
        return UNKNOWN_MACHINE
    listed = facts.get("cpu_features")
    features = [str(feature) for feature in listed] if isinstance(listed, list) else []
    vectors = next((kind for kind in WIDE_VECTORS if any(feature.startswith(kind) for feature in features)), "")
    parts = (facts.get("machine"), vectors, facts.get("libc"), f"Python {facts['python']}" if "python" in facts else "")
    return " ".join(str(part) for part in parts if part)


def made_on() -> str:
    """Return today's date, for pages and tables that say when they were made."""
    return date.today().isoformat()
