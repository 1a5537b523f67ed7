"""Run `evopolicygym` commands in forks of one process that has imported everything: saves a second for each command.

    python preloaded_cli.py    # reads lines of JSON, {"argv": [...], "environment": {...}}, and answers each

Each command is a process of its own, with its own environment and output.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import traceback
from typing import Any, Self


class PreloadedCli:
    """The side of the tests."""

    def __enter__(self) -> Self:
        self._process = subprocess.Popen(
            [sys.executable, __file__], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        return self

    def __exit__(self, *exception: object) -> None:
        self._process.communicate()

    def run(self, argv: list[str], **environment: str) -> subprocess.CompletedProcess[str]:
        assert self._process.stdin and self._process.stdout
        print(json.dumps({"argv": argv, "environment": environment}), file=self._process.stdin, flush=True)
        answer = json.loads(self._process.stdout.readline())
        return subprocess.CompletedProcess(argv, answer["code"], answer["stdout"], answer["stderr"])


def _answer(asked: dict[str, Any]) -> dict[str, Any]:
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        child = os.fork()
        if child == 0:
            _become(asked, out.fileno(), err.fileno())
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        texts = [(file.seek(0), file.read().decode())[1] for file in (out, err)]
    return {"code": code, "stdout": texts[0], "stderr": texts[1]}


def _become(asked: dict[str, Any], out: int, err: int) -> None:
    """Does not return."""
    from evopolicygym.cli.main import main

    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(out, 1)
    os.dup2(err, 2)
    os.environ.update(asked["environment"])
    sys.argv = ["evopolicygym", *asked["argv"]]
    code = 70
    try:
        main()
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(code)


if __name__ == "__main__":
    from evopolicygym.cli.main import _app

    _app()
    for line in sys.stdin:
        print(json.dumps(_answer(json.loads(line))), flush=True)
