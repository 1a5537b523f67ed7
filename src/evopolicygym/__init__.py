"""EvoPolicyGym measures how coding agents improve executable policies.

The public Python API: docs/python.md is the guide. Names are loaded when they are first used, so that importing the
package stays light.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from evopolicygym.api.agents import check_agent, list_agents
    from evopolicygym.api.enter import enter
    from evopolicygym.api.evaluate import evaluate
    from evopolicygym.api.finish import finish, score, verify
    from evopolicygym.api.report import Report, write_report
    from evopolicygym.api.results import Run, Runs, import_runs, load_run, load_runs
    from evopolicygym.api.run import run
    from evopolicygym.api.serve import ServedRun, serve
    from evopolicygym.api.statistics import Analysis, Comparison, analyze, compare, leaderboard, reproduce
    from evopolicygym.api.suite import SuiteProgress, preflight, run_suite, suite_status
    from evopolicygym.api.tasks import TaskDescription, check_task, describe_task, list_tasks, load_task
    from evopolicygym.api.transcript import RunTranscript, tail, transcript
    from evopolicygym.api.workspace import Feedback, RunClosed, SubmissionRefused, Workspace
    from evopolicygym.errors import Fault, RunSuspended, UserError
    from evopolicygym.execution.evaluation import Evaluation, PolicyNotLoaded
    from evopolicygym.run_progress import RunProgress
    from evopolicygym.tasks.task import Task

__version__ = "0.1.0"
__all__ = [
    "Analysis",
    "Comparison",
    "Evaluation",
    "Fault",
    "Feedback",
    "PolicyNotLoaded",
    "Report",
    "Run",
    "RunClosed",
    "RunProgress",
    "RunSuspended",
    "RunTranscript",
    "Runs",
    "ServedRun",
    "SubmissionRefused",
    "SuiteProgress",
    "Task",
    "TaskDescription",
    "UserError",
    "Workspace",
    "__version__",
    "analyze",
    "check_agent",
    "check_task",
    "compare",
    "describe_task",
    "enter",
    "evaluate",
    "finish",
    "import_runs",
    "leaderboard",
    "list_agents",
    "list_tasks",
    "load_run",
    "load_runs",
    "load_task",
    "preflight",
    "reproduce",
    "run",
    "run_suite",
    "score",
    "serve",
    "suite_status",
    "tail",
    "transcript",
    "verify",
    "write_report",
]

_MODULES: Final = {
    "api.agents": ("check_agent", "list_agents"),
    "api.enter": ("enter",),
    "api.evaluate": ("evaluate",),
    "api.finish": ("finish", "score", "verify"),
    "api.report": ("Report", "write_report"),
    "api.results": ("Run", "Runs", "import_runs", "load_run", "load_runs"),
    "api.run": ("run",),
    "api.serve": ("ServedRun", "serve"),
    "api.statistics": ("Analysis", "Comparison", "analyze", "compare", "leaderboard", "reproduce"),
    "api.suite": ("SuiteProgress", "preflight", "run_suite", "suite_status"),
    "api.tasks": ("TaskDescription", "check_task", "describe_task", "list_tasks", "load_task"),
    "api.transcript": ("RunTranscript", "tail", "transcript"),
    "api.workspace": ("Feedback", "RunClosed", "SubmissionRefused", "Workspace"),
    "errors": ("Fault", "RunSuspended", "UserError"),
    "execution.evaluation": ("Evaluation", "PolicyNotLoaded"),
    "run_progress": ("RunProgress",),
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
    return sorted({*globals(), *__all__})
