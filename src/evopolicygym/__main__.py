"""`evopolicygym` and `python -m evopolicygym`: the entry point, before anything heavy is imported."""

from __future__ import annotations

import os
import signal
import sys
from typing import NoReturn

from evopolicygym import __version__


def main() -> None:
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # not where it is ignored, as under nohup
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # while modules load there is nothing to tidy up, or to tell
    if sys.argv[1:] == ["--version"]:
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)
        _print_version()
    from evopolicygym.cli.main import main as command_line

    command_line()


def _print_version() -> NoReturn:
    try:
        os.write(1, f"{__version__}\n".encode())
        sys.exit(0)
    except OSError as error:
        os.write(2, f"the version cannot be written: {error.strerror}\n".encode())
        sys.exit(2)


if __name__ == "__main__":
    main()
