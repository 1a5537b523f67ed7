"""Play one turn: read a prompt from stdin, print events as JSON lines, save the conversation for the next turn."""

from __future__ import annotations

import argparse
import json
import os
import secrets
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

from . import tools
from .connection import add_model_options, connect, emit
from .providers import Provider, ProviderError, RequestUsage

SYSTEM: Final = (
    "You are a software engineer at work in a folder. Use the tools; nobody reads along or answers questions. "
    "When there is nothing left to do, answer without calling a tool."
)


def main() -> int:
    parser = argparse.ArgumentParser(prog="harness", description=__doc__)
    add_model_options(parser)
    parser.add_argument("--session", help="id of the conversation to continue")
    parser.add_argument("--max-requests", type=int, default=200, help="maximum requests to the model in one turn")
    options = parser.parse_args()
    provider = connect(parser, options, SYSTEM, tools.TOOLS)
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
    result = tools.call_tool(name, arguments, Path.cwd())
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


if __name__ == "__main__":
    sys.exit(main())
