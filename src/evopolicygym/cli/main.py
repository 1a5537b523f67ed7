"""The command line: an assembler that only wires."""

from __future__ import annotations

import os
import select
import signal
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Annotated, Any, Final, NoReturn, TextIO

import typer
from typer.core import TyperGroup

from evopolicygym import __version__
from evopolicygym.cli.output import BROKEN_PIPE, EscapingStream, one_line
from evopolicygym.errors import FULL, Fault, UserError

NOT_LINUX = """\
EvoPolicyGym isolates policies with Linux kernel features. On macOS or Windows run it in the container that ships:
  docker build -t evopolicygym . && docker run --rm -it -v "$PWD":/host -w /host evopolicygym evopolicygym doctor"""


ROOM: Final = (
    "Make room, and give the command again. A run loses nothing that is in its ledger: "
    "`evopolicygym run --resume RUN` goes on with it, `evopolicygym finish RUN` ends it."
)
REINSTALL: Final = "`evopolicygym doctor` names every broken package; `pip install --force-reinstall NAME` mends one."
# Typer brings a click of its own, or uses the one that is there.
USAGE_ERROR: Final[type[typer.BadParameter]] = typer.BadParameter.__mro__[1]
# Where each command is: a function of a module of this package, or several, held together by an app.
COMMANDS: Final = {
    "evaluate": "evaluate:evaluate",
    "demo": "demo:demo",
    "run": "run:run",
    "serve": "serve:serve",
    "finish": "finish:finish",
    "score": "finish:score",
    "verify": "finish:verify",
    "leaderboard": "leaderboard:leaderboard",
    "compare": "compare:compare",
    "analyze": "analyze:analyze",
    "report": "report:report",
    "reproduce": "reproduce:reproduce",
    "docs": "docs:docs",
    "doctor": "doctor:doctor",
    "suite": "suite:app",
    "task": "task:app",
    "agent": "agent:app",
    "seeds": "seeds:app",
}


def main() -> NoReturn:
    """Entry point. Exit codes: 0 done, 1 asked for but not achieved, 2 bad input, 3 not isolated, 4 judge fault."""
    if sys.platform != "linux":
        sys.exit(NOT_LINUX)
    _mend_streams()
    if signal.getsignal(signal.SIGINT) is signal.SIG_DFL:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        try:
            _app(sys.argv[1:2])()
        finally:
            sys.stdout.flush()
    except UserError as error:
        _complain(str(error), error.exit_code)
    except Fault as fault:
        _complain(f"the judge failed, through no fault of the policy: {fault}", fault.exit_code)
    except ImportError as error:
        _complain(f"a package that this command needs does not import: {error}\n{REINSTALL}", Fault.exit_code)
    except (KeyboardInterrupt, _Interrupted):
        _complain("interrupted; every process is stopped", 130)
    except (BrokenPipeError, _ReaderGone):
        _drop_output()
        sys.exit(BROKEN_PIPE)
    except UnicodeEncodeError as error:
        _complain(f"a name is not UTF-8, which no record can hold: {error.object!a}\nRename it.", UserError.exit_code)
    except OSError as error:
        is_full_disk = error.errno in FULL and error.filename  # the output has no name
        _drop_output()
        _complain(_said(error), Fault.exit_code if is_full_disk else UserError.exit_code)
    sys.exit(0)


def _drop_output() -> None:
    """Send what could not be written nowhere, or the interpreter tries once more at its end and exits with 120."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _complain(text: str, code: int) -> NoReturn:
    print(f"evopolicygym: {text}", file=sys.stderr)
    sys.exit(code)


def _said(error: OSError) -> str:
    """A full disk says no name: it may be that of the output, or of the folder that was being written."""
    if error.errno in FULL:
        return f"{error.strerror}: {error.filename or 'the output, or the folder that is written to, is full'}\n{ROOM}"
    return f"{error.filename or 'the output'}: {error.strerror}"


def _mend_streams() -> None:
    """A stream that was closed goes nowhere, so that no file of ours takes its number and is printed into. What a
    terminal's encoding does not have is shown as ``?``; and control characters are shown, not obeyed."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode))
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(errors="replace")  # type: ignore[union-attr]
    sys.stdout, sys.stderr = EscapingStream(sys.stdout), EscapingStream(sys.stderr)


class _Interrupted(Exception):
    """Ctrl-C within a command."""


class _ReaderGone(Exception):
    """A pipe that nobody reads any more."""


class _Root(TyperGroup):
    """Typer ends without a word at Ctrl-C, and with 1 at a broken pipe; ``main`` has words and a code of its own. And
    it repeats arguments that are wrong on a console of its own."""

    def make_context(self, *given: Any, **options: Any) -> Any:
        with _tamed_usage():
            return super().make_context(*given, **options)

    def invoke(self, ctx: Any) -> Any:
        try:
            with _tamed_usage():
                return super().invoke(ctx)
        except KeyboardInterrupt as error:
            raise _Interrupted from error
        except BrokenPipeError as error:
            if not any(map(_is_unread, (sys.stdout, sys.stderr))):
                raise Fault("a pipe broke, and it was not that of the output") from error
            raise _ReaderGone from error


@contextmanager
def _tamed_usage() -> Iterator[None]:
    try:
        yield
    except USAGE_ERROR as error:
        error.message = one_line(error.message)
        raise


def _is_unread(stream: TextIO) -> bool:
    """Whether it is a pipe at whose other end there is nobody any more."""
    poll = select.poll()
    poll.register(stream, 0)
    return bool(poll.poll(0))


def _app(asked: Iterable[str] = ()) -> typer.Typer:
    """Only the command that is asked for is imported; all of them where somebody wants to know what there is."""
    app = typer.Typer(cls=_Root, no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False)
    app.callback()(_root)
    for name in [name for name in asked if name in COMMANDS] or COMMANDS:
        module, _, attribute = COMMANDS[name].partition(":")
        found = getattr(import_module(f"evopolicygym.cli.{module}"), attribute)
        if isinstance(found, typer.Typer):
            app.add_typer(found, name=name)
        else:
            app.command(name)(found)
    return app


def _show_version(asked: bool) -> None:
    if asked:
        print(__version__)
        raise typer.Exit


def _root(
    version: Annotated[
        bool, typer.Option("--version", is_eager=True, callback=_show_version, help="Show the version and exit.")
    ] = False,
) -> None:
    """Measures how coding agents improve executable policies. For a first look: `evopolicygym demo`."""


if __name__ == "__main__":
    main()
