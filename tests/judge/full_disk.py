"""Serve and score a run on a small disk that fills up twice. Prints what was answered, one JSON value a line."""

from __future__ import annotations

import json
import sys
import threading
import time
import urllib.error
import urllib.request
from contextlib import suppress
from pathlib import Path

import evopolicygym

DISK = Path(sys.argv[1])
POLICY = "class Policy:\n def __init__(self, *_): ...\n def reset(self, _): ...\n def act(self, obs): return 0\n"


def fill() -> None:
    with open(DISK / "filler", "wb", buffering=0) as file, suppress(OSError):
        while file.write(b"x" * 4096):
            pass


def submit(url: str) -> int:
    body = json.dumps({"env_instances": [0]}).encode()
    try:
        with urllib.request.urlopen(urllib.request.Request(f"{url}/submit", body)) as response:
            return int(response.status)
    except urllib.error.HTTPError as error:
        return error.code


small = {"budget": 4, "validation_cases": 2, "heldout_cases": 2, "seeds": "paper", "jobs": 1}
with evopolicygym.serve("core16/acrobot", DISK / "run", **small) as served:
    served.workspace.policy.write_text(POLICY)
    print(json.dumps([submit(served.api), served.remaining]))
    fill()
    print(json.dumps([submit(served.api), served.remaining]))
    print(json.dumps([submit(served.api), served.remaining]))
    print(json.dumps(served.progress.doing))
    (DISK / "filler").unlink()
    deadline = time.monotonic() + 60
    while served.progress.doing.startswith("paused") and time.monotonic() < deadline:
        time.sleep(0.1)
    print(json.dumps([submit(served.api), served.remaining]))
    fill()
    threading.Timer(1.5, (DISK / "filler").unlink).start()
    print(json.dumps(served.finish().outcome))
