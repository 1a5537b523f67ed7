"""`evopolicygym` and `python -m evopolicygym`: the way in, before anything heavy is imported."""

from __future__ import annotations

import signal
import sys

from evopolicygym import __version__


def main() -> None:
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # not where it is ignored, as under nohup
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # while modules load there is nothing to tidy up, or to tell
    if sys.argv[1:] == ["--version"]:
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)
        print(__version__)
        return
    from evopolicygym.cli.main import main as command_line

    command_line()


if __name__ == "__main__":
    main()
