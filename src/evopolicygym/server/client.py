#!/usr/bin/env python3
"""Submit system/ for training episodes, wait, and print what came back.

    python3 submit.py 0-7         train cases 0 to 7: eight episodes of the budget
    python3 submit.py 0-3,7,7     any list; order and repeats are kept, each costs one episode
    python3 submit.py             continue to wait for an interrupted submission
    python3 submit.py --check     import, construct and ask system/policy.py once here: free, no environment
    python3 submit.py --info      remaining budget, limits, spaces (JSON)
    python3 submit.py --task      the task text

If this program is killed while it waits, nothing is lost: run it again, with the same cases or without. The
submission is charged once, and its result is printed. Details of every submission: feedback/submit_NNN/.

Exit codes: 0 played, 1 the policy did not load (or its episodes together took too long), 2 refused (nothing was
charged) or the run is closed, 3 the server cannot be reached, 4 the server failed (nothing is charged for it), 141
the output was closed.
"""

from __future__ import annotations

import argparse
import glob
import http.client
import importlib
import json
import os
import re
import secrets
import sys
import time
import traceback
import urllib.error
import urllib.request
from contextlib import suppress
from typing import Any

HERE = os.path.dirname(os.path.abspath(__file__))
PENDING = os.path.join(HERE, ".pending.json")
DOOR = os.path.join(HERE, "door.json")
PATIENCE_S = 600.0  # how long to wait for a server that does not answer
POLL_S = (0.02, 0.05, 0.1, 0.2, 0.5, 1.0)
PLAYED, NOT_LOADED, REFUSED, UNREACHABLE, FAULT = range(5)
OUTPUT_CLOSED = 141
OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({}))  # the server is on this machine: use no proxy


class Stop(Exception):
    """End the program with a message and an exit code."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(text)
        self.code = code


class RunIsClosed(Stop):
    """There is no server any more, for good."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cases", nargs="?", help="train cases, such as 0-7 or 0-3,7,7")
    parser.add_argument("--json", action="store_true", help="print the summary as JSON")
    parser.add_argument("--check", action="store_true", help="load the policy here, free")
    parser.add_argument("--info", action="store_true", help="budget, limits and spaces")
    parser.add_argument("--task", action="store_true", help="the task text")
    escape_unprintable()
    options = parser.parse_args()
    try:
        if options.info or options.task:
            print(call("GET", "/info" if options.info else "/task")[1])
            return PLAYED
        if options.check:
            return check()
        return submit(options.cases, options.json)
    except Stop as stop:
        report(str(stop))
        return stop.code
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # otherwise the interpreter reports the error again at exit
        return OUTPUT_CLOSED


def escape_unprintable() -> None:
    """Escape characters that the encoding of the terminal lacks, instead of failing."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")


def submit(cases: str | None, as_json: bool) -> int:
    """Finish an interrupted submission first; a call with the same cases means that same submission."""
    pending = read_pending()
    if pending is None and cases is None:
        raise Stop(REFUSED, "nothing to wait for: name the train cases to submit for, such as 0-7 (see --help)")
    if pending is not None:
        report(f"continuing the interrupted submission for cases {pending['cases']}; nothing is charged again")
        code = wait_for(pending, as_json)
        if cases in (None, pending["cases"]):
            return code
    return wait_for({"key": secrets.token_hex(16), "cases": cases}, as_json)


def wait_for(pending: dict[str, Any], as_json: bool) -> int:
    """Submit and wait. The key is on disk before it is sent, so that the next call can ask for the same submission."""
    write_pending(pending)
    answer = post(pending)
    tries = 0
    while answer["status"] == "running":
        time.sleep(POLL_S[min(tries, len(POLL_S) - 1)])
        tries += 1
        if tries % 30 == 0:
            report(f"{answer['submit_id']} is running")
        answer = read_state(answer["submit_id"])
    show(answer, as_json)
    sys.stdout.flush()  # it must be printed before the pending file is removed
    remove_pending(pending)
    if answer["status"] == "fault":
        raise Stop(FAULT, answer["message"])
    return PLAYED if answer["status"] == "ok" else NOT_LOADED


def read_state(submit_id: str) -> dict[str, Any]:
    """Return the state of a submission; from its feedback if the run was closed meanwhile."""
    try:
        answer: dict[str, Any] = json.loads(call("GET", f"/submissions/{submit_id}")[1])
    except RunIsClosed:
        summary = read_json(os.path.join(HERE, "feedback", submit_id, "summary.json"))
        if not (isinstance(summary, dict) and summary.get("status")):
            raise
        answer = {"status": summary["status"], "summary": summary}
    return answer


def post(pending: dict[str, Any]) -> dict[str, Any]:
    """Post a submission. If another one is running, wait for it and try again."""
    body = json.dumps({"env_instances": pending["cases"], "wait": False}).encode()
    headers = {"Idempotency-Key": pending["key"], "Content-Type": "application/json"}
    waited = 0.0
    while True:
        code, text = call("POST", "/submit", body, headers)
        answer: dict[str, Any] = json.loads(text)
        if code in (200, 202):
            return answer
        if answer.get("status") != "busy" or waited > PATIENCE_S:
            if code < 500:
                remove_pending(pending)
            budget = answer.get("remaining_budget")
            remaining = "" if budget is None else f" Remaining budget: {budget} episodes."
            why = f"{answer.get('status', code)}: {answer.get('message', 'refused')}"
            raise Stop(FAULT if code >= 500 else REFUSED, f"{why}.{remaining}")
        if waited == 0.0:
            report(answer["message"])
        time.sleep(1.0)
        waited += 1.0


def call(method: str, path: str, body: bytes | None = None, headers: dict[str, str] | None = None) -> tuple[int, str]:
    """Send a request until it is answered. A restarting server may get another address, which door.json has."""
    began, reported = time.monotonic(), False
    while True:
        code, text = attempt(urllib.request.Request(api() + path, body, headers or {}, method=method))
        if code:
            return code, text
        if time.monotonic() - began > PATIENCE_S:
            raise Stop(UNREACHABLE, f"the server does not answer ({text}); run submit.py again later")
        if not reported:
            report(f"the server does not answer ({text}); trying again for {PATIENCE_S:.0f} s")
            reported = True
        time.sleep(0.5)


def attempt(request: urllib.request.Request) -> tuple[int, str]:
    """Return status and text; or 0 and the reason. Another program may listen on the old port of the server."""
    try:
        code, text = fetch(request)
        if code == 404:
            return 0, "the program that answers does not know this address"
        if not (request.full_url.endswith("/task") or {"status", "state"} & set(json.loads(text))):
            return 0, "another program answers there"
        return code, text
    except (OSError, http.client.HTTPException, ValueError, TypeError) as error:
        return 0, str(error) or type(error).__name__


def fetch(request: urllib.request.Request) -> tuple[int, str]:
    try:
        with OPENER.open(request, timeout=60) as reply:
            return reply.status, reply.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def api() -> str:
    address_file = read_json(DOOR)
    if isinstance(address_file, dict) and address_file.get("closed") is True:
        text = "the run is closed: nothing more can be submitted. What was submitted is in feedback/"
        raise RunIsClosed(REFUSED, text)
    address = address_file.get("api") if isinstance(address_file, dict) else os.environ.get("EVOPOLICYGYM_API")
    if not isinstance(address, str) or not re.match(r"http://[!-~]+$", address):
        raise Stop(UNREACHABLE, "neither door.json nor EVOPOLICYGYM_API has the address of the server")
    return address


def episodes(number: int) -> str:
    return f"{number} episode" if number == 1 else f"{number} episodes"


def show(answer: dict[str, Any], as_json: bool) -> None:
    summary = answer.get("summary")
    if as_json or summary is None:
        print(json.dumps(summary or answer, indent=1))
        return
    print(f"{summary['submit_id']}: {summary['status']}")
    if summary["mean_return"] is not None:
        spread = f"std {summary['std_return']:.6g}, min {summary['min_return']:.6g}, max {summary['max_return']:.6g}"
        print(f"mean return {summary['mean_return']:.6g} over {episodes(len(summary['returns']))} ({spread})")
        for number, value in enumerate(summary["returns"]):
            case, length = summary["env_instances"][number], summary["lengths"][number]
            print(f"  case {case:<5} return {value:<14.6g} steps {length}")
    for failure in summary["errors"][:10]:
        where = "load" if failure["episode"] is None else f"episode {failure['episode']}"
        print(f"  {where} failed: {failure['kind']}: {escape_controls(failure['message'])}")
    if summary["clipped_actions"]:
        print(f"  {summary['clipped_actions']} actions were outside the bounds, and clipped")
    if answer.get("candidates") is not None:
        print(f"candidates so far: {', '.join(answer['candidates']) or 'none'}")
    print(f"remaining budget: {episodes(summary['remaining_budget'])}; details: {summary['feedback']}/")


def check() -> int:
    """Import, construct, reset and act once, as the judge does, but without jail, limits and environment."""
    meta = json.loads(call("GET", "/info")[1])["env_meta"]
    spaces = [parse_infinities(meta[name]) for name in ("obs_space", "action_space")]
    env_meta = {name: meta[name] for name in ("env", "task", "env_version", "max_episode_steps")}
    sys.path.insert(0, os.path.join(HERE, "system"))
    sys.dont_write_bytecode = True
    try:
        policy = importlib.import_module("policy").Policy(*spaces, env_meta)
        if not callable(getattr(policy, "act", None)):
            raise TypeError("class Policy has no method act(obs)")
        policy.reset(0)
    except (Exception, SystemExit):
        traceback.print_exc()
        raise Stop(NOT_LOADED, "the policy does not load; nothing was submitted") from None
    act_once(policy, spaces[0])
    return PLAYED


def act_once(policy: Any, space: Any) -> None:
    """Ask the policy for one action: for a recorded observation if there is one, else for zeros."""
    try:
        recorded = read_recorded_observation()
        observation = make_observation(space, recorded)
    except ImportError:
        print(
            "system/policy.py imports, constructs and resets; act() was not tried without numpy; nothing was submitted"
        )
        return
    kind = "made-up observation (all zeros)" if recorded is None else "recorded observation"
    try:
        action = policy.act(observation)
    except (Exception, SystemExit):
        traceback.print_exc()
        raise Stop(NOT_LOADED, f"the policy loads, but fails on a {kind}; nothing was submitted") from None
    print(f"system/policy.py imports, constructs, resets, and answers a {kind} with {action!r}; nothing was submitted")


def read_recorded_observation() -> Any:
    """Return the first observation of the newest feedback."""
    folders = sorted(glob.glob(os.path.join(glob.escape(HERE), "feedback", "submit_*", "episodes", "ep_*")))
    for folder in reversed(folders):
        try:
            with open(os.path.join(folder, "trajectory.jsonl")) as file:
                return insert_arrays(json.loads(file.readline())["obs"], os.path.join(folder, "episode.npz"))
        except (OSError, ValueError, KeyError, TypeError):
            continue
    return None


def insert_arrays(value: Any, path: str) -> Any:
    """Insert large parts, which are stored as rows of a file."""
    if isinstance(value, dict) and set(value) == {"npz", "row"}:
        import numpy

        with numpy.load(path) as arrays:
            return arrays[value["npz"]][value["row"]]
    if isinstance(value, list):
        return [insert_arrays(part, path) for part in value]
    return {name: insert_arrays(part, path) for name, part in value.items()} if isinstance(value, dict) else value


def make_observation(space: Any, recorded: Any) -> Any:
    """Return an observation as a policy gets it: the recorded one, or zeros within the bounds."""
    if space["type"] == "Dict":
        return {
            name: make_observation(part, None if recorded is None else recorded[name])
            for name, part in space["spaces"].items()
        }
    if space["type"] == "Tuple":
        parts = [None] * len(space["spaces"]) if recorded is None else recorded
        return tuple(make_observation(inner, part) for inner, part in zip(space["spaces"], parts, strict=True))
    if space["type"] == "Discrete":
        return space.get("start", 0) if recorded is None else recorded
    if "shape" not in space:
        return "" if recorded is None else recorded
    import numpy

    zeros = numpy.clip(numpy.zeros(space["shape"]), space.get("low", 0), space.get("high", 0))
    return numpy.asarray(zeros if recorded is None else recorded, space["dtype"])


def parse_infinities(space: Any) -> Any:
    """Convert infinities back to numbers; JSON has them as text."""
    if isinstance(space, dict):
        return {name: parse_infinities(value) for name, value in space.items()}
    if isinstance(space, list):
        return [parse_infinities(value) for value in space]
    return float(space) if space in ("inf", "-inf") else space


def read_json(path: str) -> Any:
    try:
        with open(path) as file:
            return json.load(file)
    except (OSError, ValueError, RecursionError):
        return None


def read_pending() -> dict[str, Any] | None:
    """Return the submission that an earlier call was waiting for."""
    pending = read_json(PENDING)
    if isinstance(pending, dict) and re.match(r"[!-~]{1,200}$", str(pending.get("key"))) and "cases" in pending:
        return {"key": str(pending["key"]), "cases": str(pending["cases"])}
    if os.path.lexists(PENDING):
        report(f"{os.path.basename(PENDING)} cannot be read and is ignored; results are in feedback/")
    return None


def write_pending(pending: dict[str, Any]) -> None:
    staged = f"{PENDING}.{os.getpid()}"
    try:
        with open(staged, "w") as file:
            json.dump(pending, file)
        os.replace(staged, PENDING)
    except OSError as error:
        with suppress(OSError):
            os.unlink(staged)
        raise Stop(REFUSED, f"cannot write {PENDING}: {error.strerror}; nothing was submitted") from error


def remove_pending(pending: dict[str, Any]) -> None:
    """Remove the pending file, unless another call has replaced it."""
    if read_json(PENDING) == pending:
        with suppress(OSError):
            os.unlink(PENDING)


def escape_controls(text: str) -> str:
    """Escape control characters."""
    return "".join(char if char.isprintable() else repr(char)[1:-1] for char in text)


def report(text: str) -> None:
    print(f"submit.py: {text}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
