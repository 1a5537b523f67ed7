"""The workspace: all that the agent sees of a run."""

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

Write the best policy you can for the task below. The policy is `system/policy.py`; everything in `system/` belongs to
it. Submit it for training episodes, read the feedback, change it, and submit again, until the budget is spent.

- Your budget is {budget} training episodes in all. A submission costs as many episodes as cases it names. When the
  budget is spent, the run is over.
- Training cases are numbered 0 to {last}. Repeating a case with the same policy gives the same result, so choose.
- When you are done, one of the policies that you submitted is chosen by its mean return on hidden cases, and measured
  on other hidden cases. Only what was submitted counts: submit your best version at least once. A policy that does
  well on the training cases that you know but not on others will not score.
{candidates}- You cannot see the hidden cases, and nothing that you can do here runs the environment but a submission.
- Outside `system/` you may keep notes, scripts and models fitted to the recorded episodes; they are not submitted.
- Nobody answers questions. The folder may hold files of your own from earlier turns: go on from them.

## How to submit

```
{submit}; any list such as 0-3,7,7
python3 submit.py --check     # import, construct and ask the policy once here, on a recorded observation if any; free
python3 submit.py --info      # remaining budget, limits, spaces
python3 submit.py --help
```

`submit.py` waits and prints a summary. If it is killed while it waits, run it again without cases: the submission goes
on, and nothing is charged twice. Without it: POST {{"env_instances": [0, 1, 2]}} to the URL in
`EVOPOLICYGYM_SUBMIT_URL` or `door.json`; GET /info and /task are beside it.

At most {most} episodes per submission, one submission at a time; `system/` may hold {mebibytes} MiB in {files} files.
A request that is refused costs nothing. A policy that does not import or crashes costs the full number of episodes.

## What comes back

`feedback/submit_NNN/` holds `summary.json` (returns, lengths, errors, remaining budget; lists are in the order of the
cases that you named), `errors.txt`, and for each episode, in that order, `episodes/ep_XXX/`: `trajectory.jsonl` (one
line per step: `t`, `obs`, `action`, `reward`, `terminated`, `truncated`; the last line has the final `obs` alone),
`observations.npz` where observations are large (in the lines they are `{{"npz": NAME, "row": ROW}}`, which is
`numpy.load("observations.npz")[NAME][ROW]`), `stdout.txt` and `stderr.txt` (what the policy printed), `error.txt` where
it failed{video}.

---

{task}"""


CANDIDATES: Final = """\
- At most {limit} of your policies can be chosen: the last {limit} different ones that you submitted and that loaded.
  Submitting an earlier one again, unchanged, makes it one of the last. Each reply names those that count so far.
"""


def example_cases(budget: int) -> tuple[str, str]:
    """Train cases of a first submission that a budget is enough for: as `submit.py` takes them, and in words."""
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
    """Once, when the run is opened. What the agent does to it later is the agent's business; what an opening that was
    killed left in ``system`` would be part of the agent's policy."""
    for leftover in paths.system.glob(".policy.py-*"):
        leftover.unlink()
    filmed = {"none": "", "first": ", `video.mp4` for the first episode", "all": ", `video.mp4`"}[video]
    cases, meaning = example_cases(budget)
    text = TEXT.format(
        budget=budget,
        submit=f"python3 submit.py {cases:12}# submit system/ for {meaning}",
        last=LAST,
        most=min(MAX_EPISODES, budget),
        mebibytes=MAX_BYTES >> 20,
        files=MAX_FILES,
        video=filmed,
        candidates=CANDIDATES.format(limit=max_candidates) if max_candidates else "",
        task=task_text,
    )
    write_atomic(paths.workspace / INSTRUCTIONS, text.encode())
    for name, pointer in POINTERS.items():
        write_atomic(paths.workspace / name, pointer.encode())
    write_atomic(paths.workspace / CLIENT, files("evopolicygym.server").joinpath("client.py").read_bytes())
    write_atomic(paths.system / "policy.py", starter(action_space).encode())


def write_door(paths: RunPaths, api: str) -> None:
    """Where the door is now; after a restart it may have moved."""
    _write_door(paths, {"api": api})


def write_closed(paths: RunPaths) -> None:
    """There is no door any more, and none will come back: whoever still waits need not."""
    _write_door(paths, {"closed": True})


def _write_door(paths: RunPaths, content: dict[str, Any]) -> None:
    """An agent that shut its own workspace is not told."""
    try:
        feedback.replace_file(paths.workspace, DOOR, json.dumps(content).encode() + b"\n")
    except OSError as error:
        log.warning("%s could not be written to the workspace: %s", DOOR, error)


def agent_environment(paths: RunPaths, api: str) -> dict[str, str]:
    """Variables of the public v0.1 protocol, for the agent's process."""
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
