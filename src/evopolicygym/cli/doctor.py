"""`evopolicygym doctor`: check what this machine can do, and say how to repair what is broken."""

from __future__ import annotations

from typing import Final

import typer
from rich.text import Text

from evopolicygym.api.machine import MachineReport, check_machine
from evopolicygym.cli.options import Json
from evopolicygym.cli.output import print_fields, print_json, print_marked, stderr, stdout
from evopolicygym.errors import IsolationUnavailable
from evopolicygym.sandbox.policy.jail import MEANING
from evopolicygym.tasks.sealing import key_file

LINE: Final = 100  # characters, even in a pipe: nothing here is read by programs, they use --json


def doctor(json: Json = False) -> None:
    """Check isolation, simulators, versions and rendering by using them. Exit code 0 if results are publishable."""
    report = check_machine()
    if json:
        print_json(report.as_dict())
    else:
        _print(report)
    raise typer.Exit(exit_code(report))


def exit_code(report: MachineReport) -> int:
    """Return 0 if results are publishable, 1 if a package or simulator is broken, 3 if there is no isolation."""
    if report.level is None:
        return IsolationUnavailable.exit_code
    return 0 if report.publishable else 1


def _print(report: MachineReport) -> None:
    level = report.level
    words = [
        (name, " ".join(value) if isinstance(value, list) else str(value)) for name, value in report.system.items()
    ]
    print_fields(words, at_most=LINE)
    for name, section in report.checks.items():
        stdout.print(f"\n{name}", style="bold")
        for probe in section:
            mark = Text("  ok " if probe.ok else "  no ", style="green" if probe.ok else "red")
            print_marked(mark, f"{probe.name}  {probe.detail}".rstrip(), LINE)
            if probe.remedy:
                print_marked(Text("       -> "), probe.remedy, LINE)
    stdout.print()
    print_fields(
        [
            ("isolation", f"level {level}: {MEANING[level]}" if level else "none works on this machine"),
            *(("not stopped", text) for text in (report.policy_residues if level else ())),
            *((name, f"{number:.3g}") for name, number in report.speed.items()),
            ("sealing key", str(key_file()) if key_file().exists() else "made on first use"),
        ],
        max(map(len, ("not stopped", *report.speed))),
        LINE,
    )
    stderr.print(
        "results of this machine are publishable"
        if report.publishable
        else "results of this machine are NOT publishable"
    )
