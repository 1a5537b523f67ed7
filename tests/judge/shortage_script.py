"""Serve and score a run that has no disk space or no memory left, again and again. Prints what was answered, one JSON
value a line."""

from __future__ import annotations

import json
import resource
import sys
import threading
import time
import urllib.error
import urllib.request
from contextlib import suppress
from pathlib import Path

import evopolicygym

FOLDER, SHORTAGE = Path(sys.argv[1]), sys.argv[2]
MEMORY = resource.getrlimit(resource.RLIMIT_AS)
POLICY = "class Policy:\n def __init__(self, *_): ...\n def reset(self, _): ...\n def act(self, obs): return 0\n"


def begin_shortage() -> None:
    """Fill the disk, which is small, or allow this process no more memory than it has."""
    if SHORTAGE == "memory":
        pages = int(Path("/proc/self/statm").read_text().split()[0])
        resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize(), MEMORY[1]))
        return
    with open(FOLDER / "filler", "wb", buffering=0) as file, suppress(OSError):
        while file.write(b"x" * 4096):
            pass


def end_shortage() -> None:
    if SHORTAGE == "memory":
        resource.setrlimit(resource.RLIMIT_AS, MEMORY)
    else:
        (FOLDER / "filler").unlink()


def end_shortage_once_paused(served: evopolicygym.ServedRun) -> None:
    is_paused = False
    while not is_paused:
        with suppress(MemoryError):
            is_paused = served.progress.doing.startswith("paused")
        time.sleep(0.05)
    end_shortage()


def submit(url: str) -> int:
    body = json.dumps({"env_instances": [0]}).encode()
    try:
        with urllib.request.urlopen(urllib.request.Request(f"{url}/submit", body)) as response:
            return int(response.status)
    except urllib.error.HTTPError as error:
        return error.code


def submit_on_a_full_disk(served: evopolicygym.ServedRun) -> list[int]:
    """Fill the disk when a submission has been charged, and free it when the judge pauses."""
    served.workspace.policy.write_text("import time\n" + POLICY.replace("return 0", "time.sleep(0.002); return 0"))
    before, answers = served.remaining, []
    thread = threading.Thread(target=lambda: answers.append(submit(served.api)))
    thread.start()
    while served.remaining == before:
        time.sleep(0.01)
    begin_shortage()
    end_shortage_once_paused(served)
    thread.join()
    return answers


small = {"budget": 4, "validation_cases": 2, "heldout_cases": 2, "seeds": "paper", "jobs": 1}
with evopolicygym.serve("core16/acrobot", FOLDER / "run", **small) as served:
    served.workspace.policy.write_text(POLICY)
    print(json.dumps([submit(served.api), served.remaining]))
    begin_shortage()
    print(json.dumps([submit(served.api), served.remaining]))
    print(json.dumps([submit(served.api), served.remaining]))
    print(json.dumps(served.progress.doing))
    end_shortage()
    deadline = time.monotonic() + 60
    while served.progress.doing.startswith("paused") and time.monotonic() < deadline:
        time.sleep(0.1)
    print(json.dumps([submit(served.api), served.remaining]))
    if SHORTAGE == "disk":
        print(json.dumps([*submit_on_a_full_disk(served), served.remaining]))
    threading.Thread(target=end_shortage_once_paused, args=[served]).start()
    begin_shortage()
    print(json.dumps(served.finish().outcome))
