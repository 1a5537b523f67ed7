"""The script of the scripted model: read the task, write a policy, submit, read the feedback and improve it, until the
budget is spent.

It is a function of the history alone, so that retries, restarts and resumed sessions do not change it. After the first
submission it ends its turn, so that it has to be prompted again.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from typing import Any

from wire_formats import Answer, Past, Schema

SHELLS = ("Bash", "bash", "exec_command", "shell_command", "shell", "run_shell_command", "Shell", "terminal",
          "execute_bash", "developer__shell")  # fmt: skip
COMPLETE = "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT"  # the only way in which mini-swe-agent ends a turn
POLICY = """\
class Policy:
    def __init__(self, obs_space, action_space, env_meta):
        self.action = min({version}, action_space["n"] - 1)

    def reset(self, episode_index):
        pass

    def act(self, obs):
        return self.action
"""
READ, WRITE, SUBMIT, FEEDBACK = "cat AGENTS.md", "cat > system/policy.py", "python3 submit.py 0-3", "cat feedback/"

Script = Callable[[Sequence[Past]], str]
"""Words: a shell command when they start with `$ `, else the model's last words of this turn. Further lines that start
with `$ ` are commands of the same answer."""


def evolve(history: Sequence[Past]) -> str:
    results = [past.text for past in history if past.kind == "result"]
    if any(re.search(r"remaining budget: 0 |run_closed", result) for result in results):
        return "The budget is spent; the last version is the best."
    done = [past for past in history if past.kind != "result"]
    last = done[-1] if done else None
    submits = sum(SUBMIT in past.text for past in done)
    if last is None:
        return f"$ {READ}"
    if last.kind == "call" and READ in last.text:
        return _write(0)
    if last.kind == "call" and WRITE in last.text:
        return f"$ {SUBMIT}"
    if last.kind == "call" and SUBMIT in last.text and submits == 1:
        return "A first version is submitted."
    if last.kind == "call" and FEEDBACK in last.text:
        return _write(submits)
    return f"$ {FEEDBACK}submit_{submits:03}/summary.json"


def _write(version: int) -> str:
    return f"$ {WRITE} <<'END' && python3 submit.py --check\n{POLICY.format(version=version)}END"


def answer(script: Script, history: Sequence[Past], tools: dict[str, Schema], body: Any) -> Answer:
    """Requests without tools ask for a title or a summary, for which any text will do, unless the script has words for
    them."""
    if not tools:
        return Answer(getattr(script, "without_tools", lambda: "A title")())
    words = script(history)
    if not words.startswith("$ ") and COMPLETE in json.dumps(body):
        words = f"$ {COMPLETE}"
    if not words.startswith("$ "):
        return Answer(words)
    name = next((name for name in SHELLS if name in tools), None)
    if name is None:
        return Answer(f"There is no shell among {sorted(tools)}.")
    first, *others = (_arguments(tools[name], command) for command in words.removeprefix("$ ").split("\n$ "))
    return Answer("", name, first, tuple(others))


def _arguments(schema: Schema, command: str) -> dict[str, Any]:
    """Return the arguments of a tool call: the command, and a value for each other field that the schema requires."""
    fields: dict[str, Any] = schema.get("properties") or {}
    key = next((name for name in ("command", "cmd", "script") if name in fields), "command")
    is_list = fields.get(key, {}).get("type") == "array"
    others = {name: _anything(fields.get(name, {})) for name in schema.get("required") or [] if name != key}
    return {**others, key: ["bash", "-lc", command] if is_list else command}


def _anything(field: Schema) -> Any:
    if field.get("enum"):
        return field["enum"][0]
    return {"boolean": False, "number": 60, "integer": 60}.get(str(field.get("type")), "scripted")
