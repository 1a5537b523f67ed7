"""The workspace of a run: everything that its agent sees.

AGENTS.md (the rules and the task), submit.py (the client of the API), door.json (the API's address), `system/` with a
starter policy, and files that point other clients to AGENTS.md."""

from __future__ import annotations

import json
import logging
from importlib.resources import files
from typing import Any, Final

from evopolicygym.files import write_atomic
from evopolicygym.judge import feedback
from evopolicygym.judge.protocol import LAST, MAX_EPISODES
from evopolicygym.run_paths import RunPaths
from evopolicygym.sandbox.checkpoints import MAX_BYTES, MAX_FILES
from evopolicygym.tasks.contract import starter

CLIENT: Final = "submit.py"
DOOR: Final = "door.json"
INSTRUCTIONS: Final = "AGENTS.md"
VARIABLE: Final = "EVOPOLICYGYM"
log = logging.getLogger(__name__)

READ_FIRST: Final = "Read AGENTS.md in this folder first: it holds the task, the rules, and how to submit.\n"
POINTERS: Final = {  # for clients that do not look for AGENTS.md; `@` includes it where it can be
    "CLAUDE.md": f"@AGENTS.md\n\n{READ_FIRST}",
    "GEMINI.md": f"@AGENTS.md\n\n{READ_FIRST}",
    "QWEN.md": READ_FIRST,
}

TEXT: Final = """\
# Your job

Write the best policy you can for the task below. The policy is `system/policy.py`; all files in `system/` belong to it.
Submit it for training episodes, read the feedback, improve it, and submit again, until the budget is spent.

- Your budget is {budget} training episodes in total. A submission costs one episode per case that it names. The run is
  over when the budget is spent.
- Training cases are numbered 0 to {last}. The same policy on the same case always gives the same result, so repeating
  a case is only useful after a change.
- At the end, the policy with the best mean return on hidden cases is selected from those that you submitted, and then
  measured on other hidden cases. Only submitted policies count: submit your best version at least once. A policy that
  is tuned to the training cases, and does badly on others, scores badly.
{candidates}- You cannot see the hidden cases. The only way to run the environment is a submission.
- Outside `system/` you may keep notes, scripts and models fitted to the recorded episodes. They are not submitted.
- There is no one to answer questions. The folder may hold your own files from earlier turns: continue from them.

## How to submit

```
{submit}; any list such as 0-3,7,7
python3 submit.py --check     # free: import the policy here and ask it for one action, on a recorded observation if any
python3 submit.py --info      # remaining budget, limits, spaces
python3 submit.py --help
```

`submit.py` waits for the result and prints a summary. If it is killed while it waits, run it again without cases: the
submission continues, and nothing is charged twice. To submit without it, POST {{"env_instances": [0, 1, 2]}} to the URL
in `EVOPOLICYGYM_SUBMIT_URL` or `door.json`; GET /info and /task are at the same address.

A submission may name at most {most} episodes, and only one runs at a time. `system/` may hold {mebibytes} MiB in
{files} files. A refused request costs nothing. A policy that does not import or crashes costs all of its episodes.

## What you get back

`feedback/submit_NNN/` holds:

- `summary.json`: returns, lengths, errors and the remaining budget; lists are in the order of the cases you named
- `errors.txt`
- `episodes/ep_XXX/` for each episode, in the same order:
  - `trajectory.jsonl`: one line per step with `t`, `obs`, `action`, `reward`, `terminated`, `truncated`; the last line
    has only the final `obs`
  - `observations.npz` if observations are large: then `obs` is `{{"npz": NAME, "row": ROW}}`, which stands for
    `numpy.load("observations.npz")[NAME][ROW]`
  - `stdout.txt` and `stderr.txt`: what the policy printed
  - `error.txt` if the episode failed
{video}
---

{task}"""


CANDIDATES: Final = """\
- At most {limit} of your policies can be selected: the last {limit} different ones that you submitted and that loaded.
  To keep an earlier one among them, submit it again unchanged. Each reply lists those that count so far.
"""


def example_cases(budget: int) -> tuple[str, str]:
    """Return train cases for a first submission within a budget: as `submit.py` takes them, and in words."""
    last = min(8, budget) - 1
    return (f"0-{last}", f"train cases 0 to {last} ({last + 1} episodes)") if last > 0 else ("0", "train case 0")


def make_workspace(
    paths: RunPaths,
    task_text: str,
    action_space: dict[str, Any],
    budget: int,
    video: str,
    max_candidates: int | None = None,
) -> None:
    """Write the workspace of a new run. Temporary files that a killed process left in ``system`` are deleted: they
    would be part of the agent's policy."""
    for leftover in paths.system.glob(".policy.py-*"):
        leftover.unlink()
    video_line = {"none": "", "first": "  - `video.mp4` in the first episode\n", "all": "  - `video.mp4`\n"}[video]
    cases, meaning = example_cases(budget)
    text = TEXT.format(
        budget=budget,
        submit=f"python3 submit.py {cases:12}# submit system/ for {meaning}",
        last=LAST,
        most=min(MAX_EPISODES, budget),
        mebibytes=MAX_BYTES >> 20,
        files=MAX_FILES,
        video=video_line,
        candidates=CANDIDATES.format(limit=max_candidates) if max_candidates else "",
        task=task_text,
    )
    write_atomic(paths.workspace / INSTRUCTIONS, text.encode())
    for name, pointer in POINTERS.items():
        write_atomic(paths.workspace / name, pointer.encode())
    write_atomic(paths.workspace / CLIENT, files("evopolicygym.server").joinpath("client.py").read_bytes())
    write_atomic(paths.system / "policy.py", starter(action_space).encode())


def write_door(paths: RunPaths, api: str) -> None:
    """Write the API's address, which may change when the run is resumed."""
    _write_door(paths, {"api": api})


def write_closed(paths: RunPaths) -> None:
    """Write that the API is closed for good, so that clients stop waiting."""
    _write_door(paths, {"closed": True})


def _write_door(paths: RunPaths, content: dict[str, Any]) -> None:
    """Write door.json. If the agent has made its workspace unwritable, log that and continue."""
    try:
        feedback.replace_file(paths.workspace, DOOR, json.dumps(content).encode() + b"\n")
    except OSError as error:
        log.warning("%s could not be written to the workspace: %s", DOOR, error)


def agent_environment(paths: RunPaths, api: str) -> dict[str, str]:
    """Return the variables of the public v0.1 protocol for the agent's process."""
    from evopolicygym.tasks.ids import PROTOCOL

    values = {
        "API": api,
        "INFO_URL": f"{api}/info",
        "TASK_URL": f"{api}/task",
        "SUBMIT_URL": f"{api}/submit",
        "WORKSPACE": str(paths.workspace),
        "SYSTEM": str(paths.system),
        "FEEDBACK": str(paths.workspace / feedback.FOLDER),
        "AGENTS": str(paths.workspace / INSTRUCTIONS),
        "PROTOCOL": PROTOCOL,
    }
    return {f"{VARIABLE}_{name}": value for name, value in values.items()}
