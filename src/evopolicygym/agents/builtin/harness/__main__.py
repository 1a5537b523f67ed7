"""Play one turn: read a prompt from stdin, print events as JSON lines, save the conversation for the next turn.

The tools are the same for every model: run a shell command, read, write and edit a file, submit.
"""

from __future__ import annotations

import argparse
import json
import os
import secrets
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

from .providers import Provider, ProviderError, RequestUsage, add_model_options, connect, emit

SYSTEM: Final = (
    "You are a software engineer at work in a folder. Use the tools; nobody reads along or answers questions. "
    "When there is nothing left to do, answer without calling a tool."
)
SHELL_SECONDS: Final = 600
LONGEST_OUTPUT: Final = 20_000


def main() -> int:
    parser = argparse.ArgumentParser(prog="harness", description=__doc__)
    add_model_options(parser)
    parser.add_argument("--session", help="id of the conversation to continue")
    parser.add_argument("--max-requests", type=int, default=200, help="maximum requests to the model in one turn")
    options = parser.parse_args()
    provider = connect(parser, options, SYSTEM, TOOLS)
    session = options.session or secrets.token_hex(8)
    return converse(provider, session, sys.stdin.read(), options.max_requests)


def converse(provider: Provider, session: str, prompt: str, max_requests: int) -> int:
    """Query the model and run its tools until it calls none; return the exit code.

    The conversation is saved before each request, so that a killed turn can be continued.
    """
    path = Path(os.environ["HOME"], f"conversation-{session}.json")
    messages = json.loads(path.read_text()) if path.exists() else []
    messages.append({"role": "user", "content": prompt})
    total, requests = RequestUsage(), 0
    emit("session", session=session)
    try:
        while requests < max_requests:
            save(path, messages)
            requests += 1
            reply = provider.complete(messages)
            total += reply.usage
            messages.append(reply.message)
            calls = [asdict(call) for call in reply.calls]
            emit("assistant", text=reply.text, calls=calls, model=reply.model, usage=asdict(reply.usage))
            if not reply.calls:
                return finish_turn(path, messages, total, requests, reply.text)
            messages += provider.results([(call, run_tool(call.name, call.arguments)) for call in reply.calls])
    except ProviderError as error:
        save(path, messages)
        emit("error", code=error.code, message=str(error))
        finish_turn(path, messages, total, requests, "")
        return 1
    return finish_turn(path, messages, total, requests, "the limit of requests in one turn is reached")


def run_tool(name: str, arguments: dict[str, Any]) -> str:
    result = call_tool(name, arguments, Path.cwd())
    emit("tool", name=name, result=result)
    return result


def finish_turn(path: Path, messages: list[dict[str, Any]], total: RequestUsage, requests: int, text: str) -> int:
    save(path, messages)
    emit("result", usage=asdict(total), requests=requests, text=text)
    return 0


def save(path: Path, messages: list[dict[str, Any]]) -> None:
    staged = path.with_suffix(".new")
    staged.write_text(json.dumps(messages))
    staged.replace(path)


TEXT: Final = {"type": "string"}


def _tool(name: str, description: str, required: list[str], **properties: Any) -> dict[str, Any]:
    schema = {"type": "object", "properties": properties, "required": required, "additionalProperties": False}
    return {"name": name, "description": description, "parameters": schema}


TOOLS: Final = [
    _tool(
        "shell",
        f"Run a command with sh in the workspace. Output is cut to {LONGEST_OUTPUT} characters; it is killed after "
        f"{SHELL_SECONDS} seconds.",
        ["command"],
        command=TEXT,
    ),
    _tool("read_file", "Read a text file of the workspace.", ["path"], path=TEXT),
    _tool("write_file", "Write a text file of the workspace, whole.", ["path", "content"], path=TEXT, content=TEXT),
    _tool(
        "edit_file",
        "Replace a text that occurs exactly once in a file.",
        ["path", "old", "new"],
        path=TEXT,
        old=TEXT,
        new=TEXT,
    ),
    _tool(
        "submit",
        "Submit system/ for train cases such as 0-7 or 0-3,7. Each case costs one episode. Waits for the result.",
        ["cases"],
        cases=TEXT,
    ),
]


def call_tool(name: str, arguments: dict[str, Any], workspace: Path) -> str:
    """Run a tool and return its result as text. If it fails, return the error message, so that the model can react."""
    action = ACTIONS.get(name)
    if action is None:
        return f"error: there is no tool {name!r}; there are {', '.join(ACTIONS)}"
    try:
        return _cut(action(workspace, **arguments))
    except (OSError, TypeError, ValueError) as error:
        return f"error: {error}"


def _shell(workspace: Path, command: str) -> str:
    return _run(["/bin/sh", "-c", command], workspace)


def _submit(workspace: Path, cases: str) -> str:
    return _run([sys.executable, "submit.py", cases], workspace)


def _run(argv: list[str], workspace: Path) -> str:
    """Run a program without API keys in its environment; return its output and exit code."""
    process = subprocess.Popen(
        argv,
        cwd=workspace,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env={name: value for name, value in os.environ.items() if not name.endswith("_API_KEY")},
        start_new_session=True,
    )
    try:
        output, note = process.communicate(timeout=SHELL_SECONDS)[0], f"[exit code {process.returncode}]"
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        output, note = process.communicate()[0], f"[killed after {SHELL_SECONDS} seconds]"
    return f"{_cut(output.decode(errors='replace'))}\n{note}"


def _read_file(workspace: Path, path: str) -> str:
    return (workspace / path).read_text(errors="replace")


def _write_file(workspace: Path, path: str, content: str) -> str:
    target = workspace / path
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(content)
    return f"wrote {len(content)} characters"


def _edit_file(workspace: Path, path: str, old: str, new: str) -> str:
    text = _read_file(workspace, path)
    if (count := text.count(old)) != 1:
        raise ValueError(f"the old text occurs {count} times in {path}, not once")
    return _write_file(workspace, path, text.replace(old, new))


def _cut(text: str) -> str:
    if len(text) <= LONGEST_OUTPUT:
        return text
    half = LONGEST_OUTPUT // 2
    return f"{text[:half]}\n[{len(text) - LONGEST_OUTPUT} characters left out]\n{text[-half:]}"


ACTIONS: Final[dict[str, Callable[..., str]]] = {
    "shell": _shell,
    "read_file": _read_file,
    "write_file": _write_file,
    "edit_file": _edit_file,
    "submit": _submit,
}


if __name__ == "__main__":
    sys.exit(main())
