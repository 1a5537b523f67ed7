#!/usr/bin/env python3
"""Submit system/ for training episodes, wait, and print what came back.

    python3 submit.py 0-7         train cases 0 to 7: eight episodes of the budget
    python3 submit.py 0-3,7,7     any list; order and repeats are kept, each costs one episode
    python3 submit.py             continue to wait for an interrupted submission
    python3 submit.py --check     load system/policy.py here and check how it answers observations: free
    python3 submit.py --info      remaining budget, limits, spaces (with --json: all of it)
    python3 submit.py --task      the task text

If this program is killed while it waits, nothing is lost: run it again, with the same cases or without. The
submission is charged once, and its result is printed. Details of every submission: feedback/submit_NNN/.

Exit codes: 0 played, 1 the policy did not load (or its episodes together took too long), 2 refused (nothing was
charged) or the run is closed, 3 the server cannot be reached, 4 the server failed (nothing is charged for it), 141
the output was closed.
"""

from __future__ import annotations

import argparse
import http.client
import importlib.util
import json
import os
import re
import secrets
import sys
import time
import urllib.error
import urllib.request
from contextlib import suppress
from typing import Any

HERE = os.path.dirname(os.path.abspath(__file__))
PENDING = os.path.join(HERE, ".pending.json")
DOOR = os.path.join(HERE, "door.json")
PATIENCE_S = 600.0  # how long to wait for a server that does not answer
POLL_S = (0.02, 0.05, 0.1, 0.2, 0.5, 1.0)
CASES = re.compile(r" *[0-9]+ *(- *[0-9]+ *)?(, *[0-9]+ *(- *[0-9]+ *)?)*$")
EACH_CASE = 16  # with more cases than this, quantiles and the worst cases are printed instead of all
WORST = 5
PLAYED, NOT_LOADED, REFUSED, UNREACHABLE, FAULT = range(5)
OUTPUT_CLOSED = 141
OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({}))  # the server is on this machine: use no proxy


class Stop(Exception):
    """End the program with a message and an exit code."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(text)
        self.code = code


class RunIsClosed(Stop):
    """The run is closed: its server will not come back."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cases", nargs="*", help="train cases, such as 0-7 or 0-3,7,7")
    parser.add_argument("--json", action="store_true", help="print the summary, or --info, as JSON")
    parser.add_argument("--check", action="store_true", help="load and try the policy here, free")
    parser.add_argument("--info", action="store_true", help="budget, limits and spaces")
    parser.add_argument("--task", action="store_true", help="the task text")
    escape_unprintable()
    options = parser.parse_args()
    try:
        if options.task:
            print(call("GET", "/task")[1])
            return PLAYED
        if options.info:
            return show_info(options.json)
        if options.check:
            return check()
        return submit(check_cases(" ".join(options.cases)) if options.cases else None, options.json)
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


def check_cases(cases: str) -> str:
    """Return the cases; raise Stop if they cannot be read."""
    if CASES.match(cases):
        return cases
    numbers = re.findall("[0-9]+", cases)
    if len(numbers) > 1 and re.match("[0-9 ]+$", cases):
        hint = f"write {','.join(numbers)} or {numbers[0]}-{numbers[-1]}"
    else:
        hint = "write numbers and ranges, such as 0-7 or 0-3,7,7"
    raise Stop(REFUSED, f"cannot read {escape_controls(cases)!r}: {hint}; nothing was submitted")


def submit(cases: str | None, as_json: bool) -> int:
    """Finish an interrupted submission first. A call with the same cases as that one continues it."""
    api()  # once the run is closed, nothing is pending
    pending = read_pending()
    if pending is None and cases is None:
        raise Stop(REFUSED, "nothing to wait for: name the train cases to submit for, such as 0-7 (see --help)")
    if pending is not None:
        was = "with system/ as it was when the server received it"
        report(f"continuing the interrupted submission for cases {pending['cases']}, {was}; nothing is charged again")
        code = wait_for(pending, as_json)
        if cases in (None, pending["cases"]):
            return code
    return wait_for({"key": secrets.token_hex(16), "cases": cases}, as_json)


def wait_for(pending: dict[str, Any], as_json: bool) -> int:
    """Submit and wait. The key is on disk before it is sent, so that the next call can ask for the same submission."""
    write_pending(pending)
    answer = post(pending)
    tries, began, next_report_s = 0, time.monotonic(), 30.0
    while answer["status"] == "running":
        time.sleep(POLL_S[min(tries, len(POLL_S) - 1)])
        tries += 1
        if time.monotonic() - began > next_report_s:
            report(f"{answer['submit_id']} has been running for {next_report_s:.0f} s")
            next_report_s *= 2
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
    """Send a request until it is answered. A server that restarts may get another address, which door.json holds."""
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
    failed = f"{summary['n_failed']} of {episodes(summary['n_episodes'])} FAILED; " if summary["n_failed"] else ""
    print(f"{summary['submit_id']}: {failed}{'status ' if failed else ''}{summary['status']}")
    if summary["mean_return"] is not None:
        print(f"mean return {summary['mean_return']:.6g} over {episodes(summary['n_episodes'])}{spread(summary)}")
        show_cases(summary)
    if summary.get("change"):
        show_change(summary["change"])
    show_failures(summary)
    if summary.get("longest_act_cpu_ms") and summary.get("act_cpu_ms"):
        times = summary["act_cpu_ms"], summary["longest_act_cpu_ms"]
        print(f"  CPU time of act(): mean {sum(times[0]) / len(times[0]):.3g} ms, longest {max(times[1]):.3g} ms")
    if summary.get("clipped_actions"):
        print(f"  {summary['clipped_actions']} actions were outside the bounds, and clipped")
    if summary.get("removed"):
        print(f"  trajectories removed to make room: {', '.join(summary['removed'])}")
    if answer.get("candidates") is not None:
        print(f"candidates so far: {', '.join(answer['candidates']) or 'none'}")
    print(f"remaining budget: {episodes(summary['remaining_budget'])}; details: {summary['feedback']}/")


def spread(summary: dict[str, Any]) -> str:
    if summary.get("std_return") is None:
        return ""
    return " (std {std_return:.6g}, min {min_return:.6g}, max {max_return:.6g})".format(**summary)


def show_cases(summary: dict[str, Any]) -> None:
    """Print each case; with many cases, quantiles and the worst ones. At feedback level score there are none to
    print."""
    returns = summary.get("returns", [])
    numbers = list(range(len(returns)))
    if len(returns) > EACH_CASE:
        ordered = sorted(returns)
        quantiles = [ordered[round(share * (len(ordered) - 1))] for share in (0.1, 0.25, 0.5, 0.75, 0.9)]
        print("  quantiles 10 25 50 75 90 %: " + " ".join(f"{value:.6g}" for value in quantiles))
        print(f"  the worst {WORST}:")
        numbers = sorted(numbers, key=lambda number: returns[number])[:WORST]
    for number in numbers:
        case, length = summary["env_instances"][number], summary["lengths"][number]
        print(f"  case {case:<5} return {returns[number]:<14.6g} steps {length}")


def show_change(change: dict[str, Any]) -> None:
    """Print the differences to an earlier submission, and to the best one if that is another."""
    others = [("", change), ("the best so far, ", change.get("best") or change)]
    for role, other in others if others[1][1]["against"] != change["against"] else others[:1]:
        differences = [value for value in other["cases"] if value is not None]
        better, worse = sum(value > 0 for value in differences), sum(value < 0 for value in differences)
        kinds = f"{better} better, {worse} worse, {len(differences) - better - worse} equal"
        compared = f"{len(differences)} of {len(other['cases'])} cases"
        print(f"  change to {role}{other['against']}, on {compared}: {other['mean']:+.6g} ({kinds})")


def show_failures(summary: dict[str, Any]) -> None:
    """Print the first failures. With many, failures of one kind share a line."""
    failures = summary["errors"]
    for failure in failures[:10]:
        where = "load" if failure["episode"] is None else f"episode {failure['episode']}"
        if "count" in failure and summary["mean_return"] is not None:
            where = episodes(failure["count"])
        print(f"  {where} failed: {failure['kind']}: {escape_controls(failure['message'])}")
    if len(failures) > 10:
        print(f"  and {len(failures) - 10} more failures: errors.txt has all")


def show_info(as_json: bool) -> int:
    text = call("GET", "/info")[1]
    if as_json:
        print(text)
        return PLAYED
    info = json.loads(text)
    state, meta, limits = info["state"], info["env_meta"], info["resource_limits"]
    most, remaining = info["max_episodes_per_submit"], state["remaining_budget"]
    print(f"budget: {remaining} of {episodes(info['episode_budget'])} left, {state['n_submits']} submissions so far")
    print(f"cases: 0-{meta['n_env_instances'] - 1}, at most {most} in one submission; {state['phase']}")
    print(f"task: {meta['task']}, at most {meta['max_episode_steps']} steps; feedback: {info['feedback']}")
    print(f"observation: {describe(meta['obs_space'])}")
    print(f"action: {describe(meta['action_space'])}")
    print("limits: " + ", ".join(f"{name} {value:g}" for name, value in limits.items()))
    print(f"imports: {', '.join(info['allowed_imports'])}")
    return PLAYED


def describe(space: Any) -> str:
    """Return a space in one line."""
    if space["type"] == "Dict":
        return "Dict(" + ", ".join(f"{name}: {describe(part)}" for name, part in space["spaces"].items()) + ")"
    if space["type"] == "Tuple":
        return "Tuple(" + ", ".join(map(describe, space["spaces"])) + ")"
    if space["type"] == "Discrete":
        first = space.get("start", 0)
        return f"Discrete, {first} to {first + space['n'] - 1}"
    if "shape" not in space:
        return str(space["type"])
    bounds = [str(space[name]) for name in ("low", "high") if name in space]
    within = f", {' to '.join(bounds)}" if bounds and len("".join(bounds)) <= 200 else ""
    return f"{space['type']} of shape {tuple(space['shape'])}, {space['dtype']}{within}"


def check() -> int:
    """Load and try the policy, as the judge does, but without jail and environment."""
    info = json.loads(call("GET", "/info")[1])
    spec = importlib.util.spec_from_file_location("check_policy", os.path.join(HERE, "check_policy.py"))
    if spec is None or spec.loader is None or not os.path.exists(os.path.join(HERE, "check_policy.py")):
        raise Stop(NOT_LOADED, "check_policy.py, which does this, is no longer beside submit.py")
    module = importlib.util.module_from_spec(spec)
    sys.dont_write_bytecode = True
    spec.loader.exec_module(module)
    try:
        problem = module.check_policy(HERE, info)
    except BrokenPipeError:
        raise
    except OSError as error:
        raise Stop(NOT_LOADED, f"the policy cannot be tried here: {error}; nothing was submitted") from error
    if problem:
        raise Stop(NOT_LOADED, f"{problem}; nothing was submitted")
    return PLAYED


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
