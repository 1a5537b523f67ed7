"""Run folders that were left out, named on stderr: the unfinished and the broken, told apart."""

from __future__ import annotations

from typing import TYPE_CHECKING

from evopolicygym.cli.output import talk

if TYPE_CHECKING:
    from evopolicygym.analysis.collect import Skipped


def report_skipped(skipped: tuple[Skipped, ...]) -> None:
    for one in skipped:
        talk.print(f"skipped {one.path}: {one.why}")
