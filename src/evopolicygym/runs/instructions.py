"""AGENTS.md: the instructions for the agent of a run. One function for each section; the task's own text comes last."""

from __future__ import annotations

import textwrap
from typing import Final

from evopolicygym.execution.columns import column_names
from evopolicygym.execution.recording import large_arrays
from evopolicygym.judge.contact_sheet import sheet_file
from evopolicygym.judge.protocol import LAST, MAX_EPISODES
from evopolicygym.limits import WORKSPACE_FEEDBACK_BYTES
from evopolicygym.runs.settings import RunSettings
from evopolicygym.sandbox.checkpoints import MAX_BYTES, MAX_FILES
from evopolicygym.tasks.conditions import FeedbackLevel, OwnModels, TextLevel, Variant
from evopolicygym.tasks.spaces import Schema

OWN_MODELS: Final = {
    OwnModels.ALLOWED: """\
- You may use models of the task that you write yourself, from what you know, from this text or from feedback:
  inside the policy, for planning for example, and outside it, to try policies before you submit them.""",
    OwnModels.FORBIDDEN: """\
- You may not use a model of the task, neither inside the policy nor outside it: no copied transition or reward
  functions, and no episodes simulated without a submission. Parameters may be fitted to feedback.""",
}


SCORE_FEEDBACK: Final = """\
## What you get back

The mean return over the cases you named, and nothing about single cases. `feedback/submit_NNN/` holds:

- `summary.json`: status, mean return, number and kinds of errors, and the remaining budget
- `errors.txt`: of each kind of error one exception: its type, file, line, and 200 characters of its message. What the
  policy prints in an episode does not come back
"""
FEEDBACK: Final = """\
## What you get back

`feedback/submit_NNN/` holds:

- `summary.json`: status, returns, lengths, mean, errors and the remaining budget; lists are in the order of the cases
  you named{summary}
- `errors.txt`: all tracebacks; if the policy did not load, `stdout.txt` and `stderr.txt` have what it printed
- `episodes/ep_XXX/` for each episode, in the same order:
{episode}
{reading}"""
SUMMARY: Final = """. `change` has the differences to the last submission that shares at least half of the cases, and
  to the best one (without failed episodes), `act_cpu_ms` and `longest_act_cpu_ms` the CPU time of an action in each
  episode, mean and longest (the limit is for every single one), `worst` the worst episode"""
TRAJECTORY: Final = (
    "  - `episode.npz`: everything as arrays, exactly; `action` as it was played, after clipping",
    "  - `trajectory.jsonl`: the same for reading, with rounded numbers: one line per step with `t`, `obs`, `action`,\n"
    "    `reward`; the last one has only the final `obs`",
)
READING: Final = """
Do not print whole trajectories: they are long. Load the arrays, and print what you need:

```python
import numpy as np
episode = np.load("feedback/submit_NNN/episodes/ep_000/episode.npz")
obs, reward = episode["{first}"], episode["reward"]  # all names: episode.files
```

{names}
"""
NAMES: Final = (
    "Observations are {arrays}, with one row more than there are steps: the last row is the final observation. "
    "`terminated` and `truncated` say how the episode ended.{info}{large} Once `feedback/` is larger than {gibibytes} "
    "GiB, trajectories of the oldest submissions are removed; `removed` in `summary.json` names them."
)
INFO: Final = (
    " Numbers that the environment reports beside the reward, if there are any, are `info_NAME` (nan where missing); "
    "in `trajectory.jsonl`, only the first line and the one that ended the episode have `info`."
)
RECORDED: Final = """
`--check` replays recorded observations of an earlier submission: the actions of your policy do not change them, so a
policy with memory sees an episode that is not its own. Before there are any, it uses the first one of train case 0.
"""
LARGE: Final = ' In `trajectory.jsonl`, `{"npz": NAME, "row": ROW}` stands for `episode[NAME][ROW]`.'
WIDTH: Final = 120


def render_instructions(settings: RunSettings, task_text: str, obs_space: Schema) -> str:
    """Return the text of AGENTS.md. ``task_text`` is the text of the task (tasks/contract.py)."""
    sections = (job_section(), rules_section(settings), submit_section(settings), feedback_section(settings, obs_space))
    return "\n".join(sections) + f"\n---\n\n{task_text}"


def job_section() -> str:
    return """\
# Your job

Write the best policy you can for the task below. The policy is `system/policy.py`; all files in `system/` belong to it.
Submit it for training episodes, read the feedback, improve it, and submit again, while budget is left and you see a way
to do better.
"""


def rules_section(settings: RunSettings) -> str:
    """Return budget, scoring and what is allowed: the same at every text level."""
    candidates = "any policy that you submitted and that loaded may be selected, so a risky one costs only its episodes"
    if settings.max_candidates:
        candidates = (
            f"at most {settings.max_candidates} of your policies can be selected: the last {settings.max_candidates} "
            "different ones that you\n  submitted and that loaded. To keep an earlier one among them, submit it again "
            "unchanged. Each reply lists those that\n  count so far"
        )
    return f"""\
## Rules

- Your budget is {settings.budget} training episodes in total. A submission costs one episode per case that it names.
  The run is over when the budget is spent. Unspent budget is neither rewarded nor punished.
- Training cases are numbered 0 to {LAST}. The same policy on the same case always gives the same result, so repeating
  a case is only useful after a change.
- At the end, the submitted policy with the best mean return on hidden cases is selected, and then measured on other
  hidden cases; {candidates}.
- A policy that is tuned to the training cases, and does badly on others, scores badly. You cannot see the hidden cases.
- The only way to run the environment is a submission: running it, or a copy of its code, yourself is not allowed.
{OWN_MODELS[settings.own_models]}
- Outside `system/` you may keep notes, scripts and data. They are not submitted.
- There is no one to answer questions. The folder may hold your own files from earlier turns: continue from them.
"""


def submit_section(settings: RunSettings) -> str:
    cases, meaning = example_cases(settings.budget)
    most = min(MAX_EPISODES, settings.budget)
    has_recordings = settings.feedback in (FeedbackLevel.TRAJECTORY, FeedbackLevel.VIDEO)
    return f"""\
## How to submit

```
python3 submit.py {cases:12}# submit system/ for {meaning}; any list such as 0-3,7,7
python3 submit.py --check     # free: load the policy here, check its answers to observations and the time of act()
python3 submit.py --info      # remaining budget, limits, spaces
python3 submit.py --help
```

`submit.py` waits for the result and prints a summary. If it is killed while it waits, run it again without cases: the
submission continues, and nothing is charged twice. To submit without it, POST {{"env_instances": [0, 1, 2]}} to the URL
in `EVOPOLICYGYM_SUBMIT_URL` or `door.json`; GET /info and /task are at the same address.
{RECORDED if has_recordings else ""}
A submission may name at most {most} episodes, and only one runs at a time. `system/` may hold {MAX_BYTES >> 20} MiB in
{MAX_FILES} files. A refused request costs nothing. A policy that does not import or crashes costs all of its episodes.
"""


def feedback_section(settings: RunSettings, obs_space: Schema) -> str:
    """Describe the feedback at the run's feedback level. The policy's own errors are shown at every level."""
    level = settings.feedback
    if level is FeedbackLevel.SCORE:
        return SCORE_FEEDBACK
    episode = [
        "  - `stdout.txt` and `stderr.txt`: what the policy printed, the first 64 KiB of each",
        "  - `error.txt` if the episode failed",
    ]
    if level is FeedbackLevel.SUMMARY:
        return FEEDBACK.format(summary="", episode="\n".join(episode), reading="")
    if level is FeedbackLevel.VIDEO:
        episode.insert(0, "  - `video.mp4`: a video of the episode, one frame per step")
    info = "" if settings.text is TextLevel.BLIND or settings.variant is Variant.DISGUISED else INFO
    large = LARGE if any(large_arrays(obs_space)) else ""
    names = list(column_names("obs", obs_space).values())
    arrays, gibibytes = ", ".join(f"`{name}`" for name in names), WORKSPACE_FEEDBACK_BYTES >> 30
    text = textwrap.fill(NAMES.format(arrays=arrays, info=info, large=large, gibibytes=gibibytes), WIDTH)
    reading = READING.format(first=names[0], names=text)
    sheet = sheet_file(obs_space)
    shown = f"; `{sheet}` shows what it saw" if sheet else ""
    return FEEDBACK.format(summary=SUMMARY + shown, episode="\n".join([*TRAJECTORY, *episode]), reading=reading)


def example_cases(budget: int) -> tuple[str, str]:
    """Return train cases for a first submission within a budget: as `submit.py` takes them, and in words."""
    last = min(8, budget) - 1
    return (f"0-{last}", f"train cases 0 to {last} ({last + 1} episodes)") if last > 0 else ("0", "train case 0")
