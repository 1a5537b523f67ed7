#!/usr/bin/env python3
"""Submit system/ for training episodes, wait, and print what came back.

    python3 submit.py 0-7         train cases 0 to 7: eight episodes of the budget
    python3 submit.py 0-3,7,7     any list; order and repeats are kept, each costs one episode
    python3 submit.py             go on waiting for a submission that was interrupted
    python3 submit.py --check     import and construct system/policy.py here: free, no environment
    python3 submit.py --info      remaining budget, limits, spaces (JSON)
    python3 submit.py --task      the task text

If this program is killed while it waits, nothing is lost: run it again, with the same cases or with none. The
submission is charged once, and its result is printed. Details of every submission: feedback/submit_NNN/.

Exit codes: 0 played, 1 the policy did not load, 2 refused (nothing was charged), 3 the server cannot be reached,
4 the server failed (nothing is charged for it).
"""

from __future__ import annotations

import argparse
import http.client
import importlib
import json
import os
import secrets
import sys
import time
import traceback
import urllib.error
import urllib.request
from typing import Any

HERE = os.path.dirname(os.path.abspath(__file__))
PENDING = os.path.join(HERE, ".pending.json")
DOOR = os.path.join(HERE, "door.json")
PATIENCE_S = 600.0  # how long a server that does not answer is waited for
POLL_S = (0.02, 0.05, 0.1, 0.2, 0.5, 1.0)
PLAYED, NOT_LOADED, REFUSED, UNREACHABLE, FAULT = range(5)


class Stop(Exception):
    def __init__(self, code: int, text: str) -> None:
        super().__init__(text)
        self.code = code


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cases", nargs="?", help="train cases, such as 0-7 or 0-3,7,7")
    parser.add_argument("--json", action="store_true", help="print the summary as JSON")
    parser.add_argument("--check", action="store_true", help="load the policy here, free")
    parser.add_argument("--info", action="store_true", help="budget, limits and spaces")
    parser.add_argument("--task", action="store_true", help="the task text")
    options = parser.parse_args()
    try:
        if options.info or options.task:
            print(call("GET", "/info" if options.info else "/task")[1])
            return PLAYED
        if options.check:
            return check()
        return submit(options.cases, options.json)
    except Stop as stop:
        print(f"submit.py: {stop}", file=sys.stderr)
        return stop.code


def submit(cases: str | None, as_json: bool) -> int:
    """An interrupted submission comes first; the same cases again are taken for the same submission."""
    pending = read_json(PENDING)
    if pending is None and cases is None:
        raise Stop(REFUSED, "nothing to wait for: name the train cases to submit for, such as 0-7 (--help says more)")
    if pending is not None:
        say(f"going on with the interrupted submission for cases {pending['cases']}; nothing is charged again")
        code = wait_for(pending, as_json)
        if cases in (None, pending["cases"]):
            return code
    return wait_for({"key": secrets.token_hex(16), "cases": cases}, as_json)


def wait_for(pending: dict[str, Any], as_json: bool) -> int:
    """The key is on disk before it is sent, so that whoever runs us next can ask for the same submission."""
    write_pending(pending)
    body = json.dumps({"env_instances": pending["cases"], "wait": False}).encode()
    answer = post(body, pending["key"])
    tries = 0
    while answer["status"] == "running":
        time.sleep(POLL_S[min(tries, len(POLL_S) - 1)])
        tries += 1
        if tries % 30 == 0:
            say(f"{answer['submit_id']} is running")
        answer = json.loads(call("GET", f"/submissions/{answer['submit_id']}")[1])
    show(answer, as_json)
    os.unlink(PENDING)
    if answer["status"] == "fault":
        raise Stop(FAULT, answer["message"])
    return PLAYED if answer["status"] == "ok" else NOT_LOADED


def post(body: bytes, key: str) -> dict[str, Any]:
    """A submission of somebody else that is still running is waited for."""
    waited = 0.0
    while True:
        code, text = call("POST", "/submit", body, {"Idempotency-Key": key, "Content-Type": "application/json"})
        answer: dict[str, Any] = json.loads(text)
        if code in (200, 202):
            return answer
        if answer.get("status") != "busy" or waited > PATIENCE_S:
            if code < 500:
                os.unlink(PENDING)
            left = f" Remaining budget: {answer['remaining_budget']} episodes." if "remaining_budget" in answer else ""
            raise Stop(FAULT if code >= 500 else REFUSED, f"{answer.get('status', code)}: {answer['message']}.{left}")
        if waited == 0.0:
            say(answer["message"])
        time.sleep(1.0)
        waited += 1.0


def call(method: str, path: str, body: bytes | None = None, headers: dict[str, str] | None = None) -> tuple[int, str]:
    """The server may be restarting, and may come back at another address: door.json says which."""
    began, told = time.monotonic(), False
    while True:
        request = urllib.request.Request(api() + path, body, headers or {}, method=method)
        try:
            with urllib.request.urlopen(request, timeout=60) as reply:
                return reply.status, reply.read().decode()
        except urllib.error.HTTPError as error:
            if error.code != 404 or path.startswith("/submissions"):
                return error.code, error.read().decode()
            problem: object = "it does not know our address"
        except (OSError, http.client.HTTPException) as error:
            problem = error
        if time.monotonic() - began > PATIENCE_S:
            raise Stop(UNREACHABLE, f"the server does not answer ({problem}); run submit.py again later")
        if not told:
            say(f"the server does not answer ({problem}); trying again for {PATIENCE_S:.0f} s")
            told = True
        time.sleep(0.5)


def api() -> str:
    door = read_json(DOOR)
    address = door["api"] if door else os.environ.get("EVOPOLICYGYM_API", "")
    if not address:
        raise Stop(UNREACHABLE, "door.json is missing, and EVOPOLICYGYM_API is not set: where is the server?")
    return str(address)


def show(answer: dict[str, Any], as_json: bool) -> None:
    summary = answer.get("summary")
    if as_json or summary is None:
        print(json.dumps(summary or answer, indent=1))
        return
    print(f"{summary['submit_id']}: {summary['status']}")
    if summary["mean_return"] is not None:
        spread = f"std {summary['std_return']:.6g}, min {summary['min_return']:.6g}, max {summary['max_return']:.6g}"
        print(f"mean return {summary['mean_return']:.6g} over {len(summary['returns'])} episodes ({spread})")
        for case, value, length in zip(summary["env_instances"], summary["returns"], summary["lengths"], strict=False):
            print(f"  case {case:<5} return {value:<14.6g} steps {length}")
    for failure in summary["errors"][:10]:
        where = "load" if failure["episode"] is None else f"episode {failure['episode']}"
        print(f"  {where} failed: {failure['kind']}: {failure['message']}")
    if summary["clipped_actions"]:
        print(f"  {summary['clipped_actions']} actions were outside the bounds, and clipped")
    print(f"remaining budget: {summary['remaining_budget']} episodes; details: {summary['feedback']}/")


def check() -> int:
    """Import, construct, reset, as the judge does; without the jail, its limits, or an environment."""
    meta = json.loads(call("GET", "/info")[1])["env_meta"]
    spaces = [numbers(meta[name]) for name in ("obs_space", "action_space")]
    told = {name: meta[name] for name in ("env", "task", "env_version", "max_episode_steps")}
    sys.path.insert(0, os.path.join(HERE, "system"))
    sys.dont_write_bytecode = True
    try:
        importlib.import_module("policy").Policy(*spaces, told).reset(0)
    except Exception:
        traceback.print_exc()
        raise Stop(NOT_LOADED, "the policy does not load; nothing was submitted") from None
    print("system/policy.py imports, constructs and resets; nothing was submitted")
    return PLAYED


def numbers(space: Any) -> Any:
    """JSON has no infinities: they came as text."""
    if isinstance(space, dict):
        return {name: numbers(value) for name, value in space.items()}
    if isinstance(space, list):
        return [numbers(value) for value in space]
    return float(space) if space in ("inf", "-inf") else space


def read_json(path: str) -> Any:
    try:
        with open(path) as file:
            return json.load(file)
    except (OSError, ValueError):
        return None


def write_pending(pending: dict[str, Any]) -> None:
    staged = f"{PENDING}.{os.getpid()}"
    with open(staged, "w") as file:
        json.dump(pending, file)
    os.replace(staged, PENDING)


def say(text: str) -> None:
    print(f"submit.py: {text}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
