"""A process that imports every command once and forks for each that it is asked to run; thousands of cold starts would
take too long. Reads what to run and writes how it ended, one JSON object a line.
"""

from __future__ import annotations

import gc
import json
import os
import resource
import select
import signal
import sys
import time
from importlib import import_module
from pathlib import Path
from typing import Any, Final

# What commands import when they are called.
LAZY: Final = (
    *("analysis.compare", "analysis.leaderboard.build", "api.report", "api.statistics", "api.tables", "api.transcript"),
    *("cli.text.compare", "report.baseline_page", "report.page", "runs.import_runs", "runs.verify"),
)
POLL_S: Final = 0.02  # between looks at what a command announces
PACKAGES: Final = ("encodings.unicode_escape", "jinja2", "pandas", "typer._adapters", "typer._click.decorators")


def main() -> None:
    from evopolicygym.cli.main import _app

    _app()
    for name in (*(f"evopolicygym.{module}" for module in LAZY), *PACKAGES):
        import_module(name)
    threads = os.listdir("/proc/self/task")
    assert len(threads) == 1, "a process with threads must not fork"
    gc.collect()
    gc.freeze()  # a collection in a child would copy all of these pages
    print("ready", flush=True)
    for line in sys.stdin:
        print(json.dumps(run(json.loads(line))), flush=True)


def run(job: dict[str, Any]) -> dict[str, Any]:
    began = time.monotonic()
    child = os.fork()
    if child == 0:
        try:
            _command(job)
        finally:
            os._exit(99)
    status, used, timed_out = _wait(child, began + job["wall_s"], Path(job["out"]) if job["waits"] else None)
    return {
        "code": os.waitstatus_to_exitcode(status),
        "timed_out": timed_out,
        "seconds": round(time.monotonic() - began, 2),
        "cpu_s": used.ru_utime + used.ru_stime,
        "mib": used.ru_maxrss >> 10,
    }


def _wait(child: int, deadline: float, announced: Path | None) -> tuple[int, Any, bool]:
    """Wait for a command. One that announces that it waits is interrupted; one that hangs is killed with its group."""
    timed_out = False
    ended = os.pidfd_open(child)
    while True:
        remaining_s = max(0.0, deadline - time.monotonic()) if not timed_out else None
        select.select([ended], [], [], POLL_S if announced else remaining_s)
        pid, status, used = os.wait4(child, os.WNOHANG)
        if pid:
            os.close(ended)
            return status, used, timed_out
        if announced and announced.exists() and b'"api"' in announced.read_bytes():
            os.kill(child, signal.SIGTERM)
            announced = None
        if time.monotonic() > deadline and not timed_out:
            timed_out = True
            os.killpg(child, signal.SIGKILL)


def _command(job: dict[str, Any]) -> None:
    os.setpgid(0, 0)
    os.chdir(job["cwd"])
    os.environ.update(job["environment"])
    for kind, value in ((resource.RLIMIT_AS, job["memory"]), (resource.RLIMIT_CPU, job["cpu_s"])):
        resource.setrlimit(kind, (value, value))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    for number, name in ((0, os.devnull), (1, job["out"]), (2, job["err"])):
        os.dup2(os.open(name, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o600), number)
    sys.argv = ["evopolicygym", *job["argv"]]
    try:
        _play(job["argv"])
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else 1 if ended.code else 0
    except BaseException:
        import traceback

        traceback.print_exc()
        code = 99
    else:
        code = 0
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def _play(argv: list[str]) -> None:
    if argv[0] == "load_runs":
        import evopolicygym

        found = evopolicygym.load_runs(argv[1])
        print(found, found.runs, found.submissions, found.episodes)
        return
    from evopolicygym.cli.main import main as command_line

    command_line()


if __name__ == "__main__":
    main()
