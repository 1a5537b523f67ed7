"""The entry point of the command line: find the command, and turn errors into messages and exit codes."""

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
from evopolicygym.cli.help_text import HELP_FLAGS, tidy_help
from evopolicygym.cli.output import BROKEN_PIPE, EscapingStream, wrap_message
from evopolicygym.errors import FULL, Fault, UserError
from evopolicygym.printable import one_line

NOT_LINUX = """\
EvoPolicyGym needs Linux: it isolates policies with kernel features. On macOS or Windows run it in the container:
  docker build -t evopolicygym . && docker run --rm -it -v "$PWD":/host -w /host evopolicygym evopolicygym doctor"""


FULL_DISK_REMEDY: Final = (
    "Free some space and repeat the command. Everything in a run's ledger is safe: "
    "`evopolicygym run --resume RUN` continues it, `evopolicygym finish RUN` ends it."
)
REINSTALL: Final = "`evopolicygym doctor` names every broken package; `pip install --force-reinstall NAME` repairs one."
# Click's UsageError. Typer brings a click of its own, or uses the installed one.
USAGE_ERROR: Final[type[typer.BadParameter]] = typer.BadParameter.__mro__[1]
# Command to module:attribute of this package; the attribute is a function, or an app of subcommands.
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
    "transcript": "transcript:transcript",
    "tail": "tail:tail",
    "import": "import_runs:import_command",
    "reproduce": "reproduce:reproduce",
    "docs": "docs:docs",
    "doctor": "doctor:doctor",
    "suite": "suite:app",
    "task": "task:app",
    "agent": "agent:app",
    "baseline": "baseline:app",
    "seeds": "seeds:app",
}


def main() -> NoReturn:
    """Run the command line. Exit codes: 0 done, 1 not achieved, 2 bad input, 3 isolation unavailable, 4 judge fault,
    5 run suspended, 6 replay diverged."""
    if sys.platform != "linux":
        sys.exit(NOT_LINUX)
    _prepare_streams()
    if signal.getsignal(signal.SIGINT) is signal.SIG_DFL:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        try:
            _app(sys.argv[1:2])()
        finally:
            sys.stdout.flush()
    except UserError as error:
        _fail(str(error), error.exit_code)
    except Fault as fault:
        _fail(f"the judge failed; the policy is not to blame: {fault}", fault.exit_code)
    except ImportError as error:
        _fail(f"a package that this command needs cannot be imported: {error}\n{REINSTALL}", Fault.exit_code)
    except (KeyboardInterrupt, _Interrupted):
        _fail("interrupted; every process is stopped", 130)
    except (BrokenPipeError, _ReaderGone):
        _drop_output()
        sys.exit(BROKEN_PIPE)
    except UnicodeEncodeError as error:
        _fail(f"a name is not UTF-8 and cannot be recorded: {error.object!a}\nRename it.", UserError.exit_code)
    except OSError as error:
        is_full_disk = error.errno in FULL and error.filename  # the output has no name
        _drop_output()
        _fail(_os_error_text(error), Fault.exit_code if is_full_disk else UserError.exit_code)
    sys.exit(0)


def _drop_output() -> None:
    """Discard unwritten output: otherwise the interpreter tries to write it again at exit, and exits with 120."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _fail(text: str, code: int) -> NoReturn:
    print(wrap_message(f"evopolicygym: {text}"), file=sys.stderr)
    sys.exit(code)


def _os_error_text(error: OSError) -> str:
    """Describe the error. For a full disk the file may be unknown: it is the output, or the folder being written."""
    if error.errno in FULL:
        full = error.filename or "the disk of the output or of the folder being written"
        return f"{error.strerror}: {full}\n{FULL_DISK_REMEDY}"
    return f"{error.filename or 'the output'}: {error.strerror}"


def _prepare_streams() -> None:
    """Make standard streams safe.

    A closed stream is replaced by /dev/null, so that no file of ours gets its descriptor and is printed into.
    Characters that the terminal's encoding lacks are shown as ``?``, and control characters are escaped.
    """
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode))
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(errors="replace")  # type: ignore[union-attr]
    sys.stdout, sys.stderr = EscapingStream(sys.stdout), EscapingStream(sys.stderr)


class _Interrupted(Exception):
    """Ctrl-C within a command."""


class _ReaderGone(Exception):
    """The reader of a pipe has closed it."""


class _Root(TyperGroup):
    """The group of all commands. It passes Ctrl-C and broken pipes on to ``main``, which has a message and an exit code
    for them; Typer would exit silently, or with 1. It also escapes wrong arguments, which Typer prints on a console of
    its own, and removes pydantic's prefix."""

    def __init__(self, *given: Any, **options: Any) -> None:
        super().__init__(*given, **options)
        tidy_help(self)

    def get_params(self, ctx: Any) -> list[Any]:
        """Return the options. Typer adds those of shell completion after the group is made, with the value <bool>."""
        for option in self.params:
            option.metavar = "" if getattr(option, "is_flag", False) else option.metavar
        return super().get_params(ctx)

    def make_context(self, *given: Any, **options: Any) -> Any:
        with _tidy_usage():
            return super().make_context(*given, **options)

    def invoke(self, ctx: Any) -> Any:
        try:
            with _tidy_usage():
                return super().invoke(ctx)
        except KeyboardInterrupt as error:
            raise _Interrupted from error
        except BrokenPipeError as error:
            if not any(map(_is_unread, (sys.stdout, sys.stderr))):
                raise Fault("a pipe broke that is not standard output or error") from error
            raise _ReaderGone from error


@contextmanager
def _tidy_usage() -> Iterator[None]:
    try:
        yield
    except USAGE_ERROR as error:
        error.message = one_line(error.message).removeprefix("Value error, ")
        raise


def _is_unread(stream: TextIO) -> bool:
    """Whether the stream is a pipe whose reader has closed it."""
    poll = select.poll()
    poll.register(stream, 0)
    return bool(poll.poll(0))


def _app(requested: Iterable[str] = ()) -> typer.Typer:
    """Import only the requested command, to start quickly; import all of them for the list of commands."""
    app = typer.Typer(
        cls=_Root,
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": HELP_FLAGS},
    )
    app.callback()(_root)
    for name in [name for name in requested if name in COMMANDS] or COMMANDS:
        module, _, attribute = COMMANDS[name].partition(":")
        command = getattr(import_module(f"evopolicygym.cli.{module}"), attribute)
        if isinstance(command, typer.Typer):
            app.add_typer(command, name=name)
        else:
            app.command(name)(command)
    return app


def _show_version(requested: bool) -> None:
    if requested:
        print(__version__)
        raise typer.Exit


def _root(
    version: Annotated[
        bool, typer.Option("--version", is_eager=True, callback=_show_version, help="Show the version and exit.")
    ] = False,
) -> None:
    """Measure how coding agents improve executable policies. Start with `evopolicygym demo`."""


if __name__ == "__main__":
    main()
