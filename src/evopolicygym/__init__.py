"""EvoPolicyGym measures how coding agents improve executable policies.

The public Python API: docs/python.md is the guide. Names are loaded when they are first used, so that importing the
package stays light. ``__all__`` leaves out the types of results that are heavy to import (`from ... import A as A`
below).
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from evopolicygym.agents.readiness import Readiness as Readiness
    from evopolicygym.agents.turn import Turn as Turn
    from evopolicygym.analysis.leaderboard.build import Leaderboard as Leaderboard
    from evopolicygym.analysis.reproduce import Reproduction as Reproduction
    from evopolicygym.api.agents import (
        AgentSummary,
        check_agent,
        check_model_server,
        list_agents,
        summarise_agents,
        try_agent,
    )
    from evopolicygym.api.anchors import MeasuredAnchors, measure_anchors, measure_missing_anchors
    from evopolicygym.api.baseline import baseline_curve
    from evopolicygym.api.enter import enter
    from evopolicygym.api.evaluate import evaluate
    from evopolicygym.api.finish import finish, score, verify
    from evopolicygym.api.machine import MachineReport, check_machine
    from evopolicygym.api.report import Report, write_report
    from evopolicygym.api.results import Run, Runs, import_runs, load_run, load_runs
    from evopolicygym.api.resume import resume
    from evopolicygym.api.run import run
    from evopolicygym.api.seal_keys import SealKey, create_seal_key, load_seal_key
    from evopolicygym.api.serve import ServedRun, serve
    from evopolicygym.api.statistics import Analysis, Comparison, analyze, compare, leaderboard, reproduce
    from evopolicygym.api.suite import SuiteProgress, estimate_suite, preflight, run_suite, suite_status
    from evopolicygym.api.tasks import (
        NovelTasksReport,
        TaskDescription,
        TaskSummary,
        check_novel_tasks,
        check_task,
        describe_task,
        list_tasks,
        load_task,
        summarise_tasks,
    )
    from evopolicygym.api.transcript import RunTranscript, tail, transcript
    from evopolicygym.api.workspace import Feedback, RunClosed, SubmissionRefused, Workspace
    from evopolicygym.errors import Fault, RunSuspended, UserError
    from evopolicygym.execution.conformance import RuleCheck as RuleCheck
    from evopolicygym.execution.evaluation import Evaluation, PolicyNotLoaded
    from evopolicygym.gateway.abilities import ServerAbilities as ServerAbilities
    from evopolicygym.reference.curves import CurveRecord as CurveRecord
    from evopolicygym.run_progress import RunProgress
    from evopolicygym.runs.import_runs import ImportResult as ImportResult
    from evopolicygym.runs.tail import TailEvent as TailEvent
    from evopolicygym.runs.verify import Verification as Verification
    from evopolicygym.suites.estimate import SuiteEstimate as SuiteEstimate
    from evopolicygym.suites.preflight import PreflightReport as PreflightReport
    from evopolicygym.tasks.task import Task

__version__ = "0.1.0"
__all__ = [
    "AgentSummary",
    "Analysis",
    "Comparison",
    "Evaluation",
    "Fault",
    "Feedback",
    "MachineReport",
    "MeasuredAnchors",
    "NovelTasksReport",
    "PolicyNotLoaded",
    "Report",
    "Run",
    "RunClosed",
    "RunProgress",
    "RunSuspended",
    "RunTranscript",
    "Runs",
    "SealKey",
    "ServedRun",
    "SubmissionRefused",
    "SuiteProgress",
    "Task",
    "TaskDescription",
    "TaskSummary",
    "UserError",
    "Workspace",
    "__version__",
    "analyze",
    "baseline_curve",
    "check_agent",
    "check_machine",
    "check_model_server",
    "check_novel_tasks",
    "check_task",
    "compare",
    "create_seal_key",
    "describe_task",
    "enter",
    "estimate_suite",
    "evaluate",
    "finish",
    "import_runs",
    "leaderboard",
    "list_agents",
    "list_tasks",
    "load_run",
    "load_runs",
    "load_seal_key",
    "load_task",
    "measure_anchors",
    "measure_missing_anchors",
    "preflight",
    "reproduce",
    "resume",
    "run",
    "run_suite",
    "score",
    "serve",
    "suite_status",
    "summarise_agents",
    "summarise_tasks",
    "tail",
    "transcript",
    "try_agent",
    "verify",
    "write_report",
]

_MODULES: Final = {
    "agents.readiness": ("Readiness",),
    "agents.turn": ("Turn",),
    "analysis.leaderboard.build": ("Leaderboard",),
    "analysis.reproduce": ("Reproduction",),
    "api.agents": (
        "AgentSummary",
        "check_agent",
        "check_model_server",
        "list_agents",
        "summarise_agents",
        "try_agent",
    ),
    "api.anchors": ("MeasuredAnchors", "measure_anchors", "measure_missing_anchors"),
    "api.baseline": ("baseline_curve",),
    "api.enter": ("enter",),
    "api.evaluate": ("evaluate",),
    "api.finish": ("finish", "score", "verify"),
    "api.machine": ("MachineReport", "check_machine"),
    "api.report": ("Report", "write_report"),
    "api.results": ("Run", "Runs", "import_runs", "load_run", "load_runs"),
    "api.resume": ("resume",),
    "api.run": ("run",),
    "api.seal_keys": ("SealKey", "create_seal_key", "load_seal_key"),
    "api.serve": ("ServedRun", "serve"),
    "api.statistics": ("Analysis", "Comparison", "analyze", "compare", "leaderboard", "reproduce"),
    "api.suite": ("SuiteProgress", "estimate_suite", "preflight", "run_suite", "suite_status"),
    "api.tasks": (
        "NovelTasksReport",
        "TaskDescription",
        "TaskSummary",
        "check_novel_tasks",
        "check_task",
        "describe_task",
        "list_tasks",
        "load_task",
        "summarise_tasks",
    ),
    "api.transcript": ("RunTranscript", "tail", "transcript"),
    "api.workspace": ("Feedback", "RunClosed", "SubmissionRefused", "Workspace"),
    "errors": ("Fault", "RunSuspended", "UserError"),
    "execution.conformance": ("RuleCheck",),
    "execution.evaluation": ("Evaluation", "PolicyNotLoaded"),
    "gateway.abilities": ("ServerAbilities",),
    "reference.curves": ("CurveRecord",),
    "run_progress": ("RunProgress",),
    "runs.import_runs": ("ImportResult",),
    "runs.tail": ("TailEvent",),
    "runs.verify": ("Verification",),
    "suites.estimate": ("SuiteEstimate",),
    "suites.preflight": ("PreflightReport",),
    "tasks.task": ("Task",),
}
_HOME: Final = {name: module for module, names in _MODULES.items() for name in names}


if not TYPE_CHECKING:  # or a type checker would believe that any name exists

    def __getattr__(name: str) -> Any:
        if name not in _HOME:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOME})
