"""Options that the commands share that play episodes."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from evopolicygym.judge.judge import Videos
from evopolicygym.runs.settings import EngineName, IsolationChoice, Seeds
from evopolicygym.tasks.conditions import FeedbackLevel, OwnModels, TextLevel, Variant

LEVELS = "auto is the better of levels A and B; none means no isolation"

SEEDS_HELP = "Source of the cases: sealed by your secret key, so that no agent knows them, or the paper's public ones."
SeedsChoice = Annotated[Seeds, typer.Option(help=SEEDS_HELP)]
EntrantName = Annotated[
    str | None, typer.Option("--name", help="Name in tables, figures and pages (default: agent and model).")
]
Budget = Annotated[int | None, typer.Option(help="Train episodes that the agent may use (default 128).")]
ValidationCases = Annotated[int | None, typer.Option(help="Hidden cases that select a checkpoint (default 16).")]
HeldoutCases = Annotated[
    int | None, typer.Option(help="Hidden cases that measure the selected checkpoint (default 32).")
]
VideoChoice = Annotated[Videos | None, typer.Option(help="Train episodes to record as video (default none).")]
SealKey = Annotated[
    Path | None, typer.Option(help="Key file for sealed cases and for variants (default: your standard key).")
]
LocalJobs = Annotated[int, typer.Option(min=1, help="Episodes played in parallel.")]
Engine = Annotated[EngineName, typer.Option(help="Where episodes are played.")]
RayAddress = Annotated[
    str | None, typer.Option(help="Ray cluster to use, or auto (default: start one on this machine).")
]
PolicyIsolation = Annotated[IsolationChoice, typer.Option(help=f"Isolation of policies: {LEVELS}.")]
OptionalPolicyIsolation = Annotated[
    IsolationChoice | None,
    typer.Option(
        "--isolation", help=f"Isolation of policies: {LEVELS}. Default: as the run was opened, or auto if it is new."
    ),
]
Text = Annotated[
    TextLevel | None,
    typer.Option(
        "--text",
        help="Text of the task for the agent: brief, as in the paper (default), full, or blind (the spaces alone).",
    ),
]
VariantChoice = Annotated[
    Variant | None,
    typer.Option(
        "--variant", help="Play the task plain (default), disguised (implies --text blind), or with shifted rules."
    ),
]
OwnModelsRule = Annotated[
    OwnModels | None,
    typer.Option("--own-models", help="Models of the task that the agent writes itself (default allowed)."),
]
Feedback = Annotated[
    FeedbackLevel | None,
    typer.Option("--feedback", help="Feedback to the agent (default trajectory). Each level includes those before it."),
]
MaxCandidates = Annotated[
    int | None, typer.Option(min=1, help="Select among the last N distinct checkpoints (default: all).")
]
