"""The command line: an assembler that only wires."""

from __future__ import annotations

import os
import signal
import sys
from typing import NoReturn

import typer

from evopolicygym.cli.output import BROKEN_PIPE, tame
from evopolicygym.errors import Fault, UserError

NOT_LINUX = """\
EvoPolicyGym isolates policies with Linux kernel features. On macOS or Windows run it in the container that ships:
  docker build -t evopolicygym . && docker run --rm -it -v "$PWD":/host -w /host evopolicygym evopolicygym doctor"""


def main() -> NoReturn:
    """Entry point. Exit codes: 0 done, 1 asked for but not achieved, 2 bad input, 3 not isolated, 4 judge fault."""
    if sys.platform != "linux":
        sys.exit(NOT_LINUX)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        try:
            _app()()
        finally:
            sys.stdout.flush()
    except UserError as error:
        _complain(str(error), error.exit_code)
    except Fault as fault:
        _complain(f"the judge failed, through no fault of the policy: {fault}", fault.exit_code)
    except KeyboardInterrupt:
        _complain("interrupted; every process is stopped and nothing is left behind", 130)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # or the interpreter complains once more
        sys.exit(BROKEN_PIPE)
    except OSError as error:
        _complain(f"{error.filename or 'the output'}: {error.strerror}", UserError.exit_code)
    sys.exit(0)


def _complain(text: str, code: int) -> NoReturn:
    print(f"evopolicygym: {tame(text)}", file=sys.stderr)
    sys.exit(code)


def _app() -> typer.Typer:
    """Commands are imported only when one runs."""
    from evopolicygym.cli import (
        agent,
        analyze,
        compare,
        demo,
        doctor,
        evaluate,
        finish,
        leaderboard,
        report,
        reproduce,
        run,
        seeds,
        serve,
        suite,
        task,
    )

    app = typer.Typer(no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False, help=__doc__)
    app.command("evaluate")(evaluate.evaluate)
    app.command("demo")(demo.demo)
    app.command("run")(run.run)
    app.command("serve")(serve.serve)
    app.command("finish")(finish.finish)
    app.command("score")(finish.score)
    app.command("verify")(finish.verify)
    app.command("leaderboard")(leaderboard.leaderboard)
    app.command("compare")(compare.compare)
    app.command("analyze")(analyze.analyze)
    app.command("report")(report.report)
    app.command("reproduce")(reproduce.reproduce)
    app.command("doctor")(doctor.doctor)
    app.add_typer(suite.app, name="suite")
    app.add_typer(task.app, name="task")
    app.add_typer(agent.app, name="agent")
    app.add_typer(seeds.app, name="seeds")
    return app


if __name__ == "__main__":
    main()
