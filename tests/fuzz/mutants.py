"""Mutate whole run folders as a person might who wants to harm their reader. Everything is drawn from a seed."""

from __future__ import annotations

import hashlib
import json
import os
import random
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from evopolicygym.gateway.frames import frame
from evopolicygym.tasks.ids import comparable_id

FILES = ("run.json", "ledger.jsonl", "config.toml")
LIBRARY = f"agent/python/lib/python{sys.version_info.major}.{sys.version_info.minor}"
PYTHON = (LIBRARY, f"{LIBRARY}/site-packages", f"{LIBRARY}/site-packages/numpy", "agent/python/bin/python3")
LOGINS = (".codex/auth.json", ".claude/.credentials.json", ".local/share/opencode/auth.json")
DEEP = 100_000
HUGE_BYTES = 8 << 40
Rng = random.Random


def mutate(rng: Rng, run: Path, outside: Path) -> str:
    """Change a run folder in one to three ways, and return a description of them."""
    done = []
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        kind = rng.choice(KINDS)
        try:
            done.append(f"{kind.__name__}: {kind(rng, run, outside)}")
        except (OSError, ValueError, LookupError, AttributeError, TypeError, RuntimeError) as error:
            done.append(f"{kind.__name__}: not possible ({type(error).__name__})")  # after an earlier change
    return "; ".join(done)


def record_field(rng: Rng, run: Path, outside: Path) -> str:
    facts = json.loads(_text(run / "run.json"))
    said = _change(rng, facts, outside)
    (run / "run.json").write_text(_dump(facts))
    return said


def record_cases(rng: Rng, run: Path, outside: Path) -> str:
    """Change the number of held-out cases everywhere in the record, with a comparable_id that follows from it."""
    facts, number = json.loads(_text(run / "run.json")), rng.choice((0, 1, 3, 256, 257, 100_000))
    ids, outcome = facts["ids"], facts["outcome"]
    facts["options"]["heldout_cases"] = ids["fingerprint"]["heldout_cases"] = number
    if rng.random() < 0.7:
        ids["comparable_id"] = comparable_id(ids["fingerprint"])
    for result in (outcome["heldout"], *(made["heldout"] for made in facts["checkpoints"])):
        if result:
            returns = [1.0] * number
            result |= {"returns": returns, "lengths": [1] * number, "errors": [None] * number, "mean": 1.0, "std": 0.0}
    if rng.random() < 0.4:
        outcome |= dict.fromkeys(("submission", "checkpoint", "validation_mean", "heldout", "repeat"))
        outcome["kind"] = "no_ok_submit"
    (run / "run.json").write_text(_dump(facts))
    return f"{number} held-out cases"


def fingerprint(rng: Rng, run: Path, outside: Path) -> str:
    """Change a fact that the comparable_id is made of, with an id that follows from it: in the record alone, or in the
    ledger, too."""
    record = json.loads(_text(run / "run.json"))
    facts = record["ids"]["fingerprint"]
    if rng.random() < 0.3:
        facts[rng.choice(("env_options", "sources", "variant", "world"))] = {"x": 1}
    said = _change(rng, facts, outside)
    record["ids"]["comparable_id"] = comparable_id(facts)
    (run / "run.json").write_text(_dump(record))
    if rng.random() < 0.3:
        return f"{said} (record)"
    lines = [json.loads(line) for line in _text(run / "ledger.jsonl").splitlines()]
    lines[0]["data"]["facts"]["ids"] |= {name: record["ids"][name] for name in ("fingerprint", "comparable_id")}
    _write_chain(run, lines)
    return f"{said} (both)"


def ledger_field(rng: Rng, run: Path, outside: Path) -> str:
    """Change a field of the ledger and repair its hash chain, as anyone who can write the folder can."""
    lines = [json.loads(line) for line in _text(run / "ledger.jsonl").splitlines()]
    line = rng.choice(lines)
    said = f"{line['kind']}: " + _change(rng, line if rng.random() < 0.1 else line["data"], outside)
    _write_chain(run, lines)
    return said


def ledger_lines(rng: Rng, run: Path, outside: Path) -> str:
    """Drop, double or move lines of the ledger, with a hash chain that holds."""
    lines = [json.loads(line) for line in _text(run / "ledger.jsonl").splitlines()]
    how, at = rng.choice(("drop", "double", "move", "end")), rng.randrange(len(lines))
    line = lines[at]
    if how == "end":
        del lines[at:]
    else:
        if how != "double":
            del lines[at]
        if how != "drop":
            lines.insert(rng.randrange(len(lines) + 1), line)
    _write_chain(run, lines)
    return f"{how} {at}"


def settings(rng: Rng, run: Path, outside: Path) -> str:
    """Change config.toml; in half of the cases change the hash in the ledger, too."""
    return _set(rng, run, rng.choice(_settings(outside)))


def number(rng: Rng, run: Path, outside: Path) -> str:
    """Set a number of the settings, or of the suite's file, to an integer beyond 64 bits: hexadecimal, octal and binary
    ones have no limit of digits in Python. A text of digits is read as a number, too."""
    digits = rng.choice((30, 320, 4000, 5000, 5000))  # Python writes 4,300 decimal ones
    hexadecimal, octal, binary = "0x" + "F" * digits, "0o" + "7" * digits, "0b" + "1" * digits
    long = (hexadecimal, hexadecimal, hexadecimal, octal, octal, binary, f'"{"9" * digits}"')
    written = rng.choice((*long, rng.choice((str(2**63), str(-(2**63) - 1), "inf", "nan", "1e400", '"inf"'))))
    if rng.random() < 0.7:
        return _set(rng, run, f"{rng.choice(NUMBERS)} = {written}")
    key = rng.choice(SUITE_NUMBERS)
    suite = run.parent.parent / "suite.toml"
    lines = [line for line in _text(suite).splitlines() if not line.startswith(f"{key} = ")]
    suite.write_text("\n".join((f"{key} = {written}", *lines)) + "\n")
    return f"suite {key} = {written[:20]} of {len(written)}"


NUMBERS = (
    *("budget", "jobs", "max_candidates", "validation_cases", "heldout_cases", "name", "stock", "unknown", "task"),
    *("agent.turns", "agent.hours", "agent.tokens", "agent.dollars", "agent.requests", "agent.retries", "agent.seed"),
    *("agent.silent_minutes", "agent.patience_minutes", "agent.replay_speed", "agent.name", "agent.model"),
)

SUITE_NUMBERS = (
    *("seed", "seed", "seed", "repeats", "name", "unknown", "defaults.budget", "splits.heldout_cases", "cap.tokens"),
    *("cap.dollars", "limits.turns", "limits.hours", "calls.per_minute", "agents.starter.turns"),
    *("agents.starter.seed", "agents.starter.options.x"),
)


def _set(rng: Rng, run: Path, said: str) -> str:
    """Set a line of config.toml."""
    lines = _text(run / "config.toml").splitlines()
    name, _, table = said.partition(" = ")[0].rpartition(".")[::-1]
    start = lines.index("[agent]") if table and "[agent]" in lines else 0
    lines = [line for line in lines if not line.startswith(f"{name} = ")]
    lines.insert(min(start, len(lines)) + bool(table), said.removeprefix("agent."))
    (run / "config.toml").write_text("\n".join(lines) + "\n")
    return said[:80] + _agreed(rng, run)


def _settings(outside: Path) -> list[str]:
    return [
        'isolation = "none"', 'agent.isolation = "none"', f'agent.shown = ["{outside}"]', 'agent.network = "open"',
        'agent.command = ["/bin/sh", "-c", "id"]', 'agent.variables = ["HOME"]', 'agent.name = "command"',
        'agent.base_url = "http://127.0.0.1:1/"', f'task = "{outside}/secret.toml"', f'task = "{outside}/pipe.toml"',
        'task = "brought:Env-v0"', 'task = "core16/nothing"', 'task = "/dev/zero.toml"', 'seeds = "sealed"',
        f'seeds = "sealed"\nseal_key = "{outside}/secret"', f'seeds = "sealed"\nseal_key = "{outside}/pipe"',
        'seeds = "sealed"\nseal_key = "/dev/zero"', 'engine = "ray"', 'engine = "ray"\nray_address = "127.0.0.1:1"',
        "jobs = 1000000", f"budget = {'9' * 5000}", f"x = {'[' * 5000}", 'stock = "maybe"', "heldout_cases = -1",
        f'agent.prices = "{outside}/pipe"', f'agent.name = "{outside}/secret.toml"', 'video = "all"',
        "budget = nan", "budget = 1e400", 'task = "\\u0000"', f'task = "{"x" * 100_000}"',
    ]  # fmt: skip


def _agreed(rng: Rng, run: Path) -> str:
    if rng.random() < 0.5:
        return ""
    lines = [json.loads(line) for line in _text(run / "ledger.jsonl").splitlines()]
    lines[0]["data"]["settings"] = hashlib.sha256(_bytes(run / "config.toml")).hexdigest()
    _write_chain(run, lines)
    return " (agreed)"


def link(rng: Rng, run: Path, outside: Path) -> str:
    """Replace a part of the run by a link: to elsewhere, to nothing, or to itself."""
    path = _some_path(rng, run)
    target = rng.choice((
        str(outside), str(outside / "secret"), str(outside / "folder"), "/dev/zero", "/proc/self/environ", "nowhere",
        path.name, "../" * 30 + str(outside / "secret").lstrip("/"), str(outside / "run"),
    ))  # fmt: skip
    _remove(path)
    path.symlink_to(target)
    return f"{path.relative_to(run)} -> {target}"


def planted_link(rng: Rng, run: Path, outside: Path) -> str:
    """Add a link at a path that the judge or a reader reads or writes."""
    names = ("logs/judge.log", ".door.json", ".owner.sock", "logs/agent/turn_001.out", "logs/agent/turn_002.out",
             "feedback/.staged-x", "checkpoints/.staged-x", "hidden/heldout.json", "agent/home/.config", "hidden",
             "feedback/submit_001/episodes", "agent/python/bin", "workspace/feedback", "workspace/door.json",
             "agent/programs/builtin", "agent", *PYTHON, "workspace/system", ".reserve")  # fmt: skip
    path = run / rng.choice(names)
    _check_inside(path.parent, run)
    if not path.parent.is_dir():
        path.parent.mkdir(parents=True)
    _remove(path)
    path.symlink_to(outside / rng.choice(("secret", "folder", "fresh", "run")))
    return f"{path.relative_to(run)} -> {os.readlink(path)}"


def planted_login(rng: Rng, run: Path, outside: Path) -> str:
    """Put a login of somebody else, or a link, into the agent's HOME."""
    path = run / "agent" / "home" / rng.choice(LOGINS)
    _check_inside(path.parent, run)
    path.parent.mkdir(parents=True, exist_ok=True)
    _remove(path)
    if rng.random() < 0.3:
        path.symlink_to(outside / "secret")
    else:
        path.write_text('{"token": "planted"}')
    return str(path.relative_to(run))


def other_kind(rng: Rng, run: Path, outside: Path) -> str:
    """Replace a file by a folder or a pipe, or a folder by a file."""
    path, kind = _some_path(rng, run), rng.choice(("folder", "file", "pipe", "nothing"))
    _remove(path)
    if kind == "folder":
        path.mkdir()
    elif kind == "file":
        path.write_bytes(rng.randbytes(rng.choice((0, 1, 100))))
    elif kind == "pipe":
        os.mkfifo(path)
    return f"{path.relative_to(run)} is now {kind}"


def size(rng: Rng, run: Path, outside: Path) -> str:
    path = _some_file(rng, run)
    length = rng.choice((0, 1, HUGE_BYTES, 300 << 20))
    os.chmod(path, 0o644)
    os.truncate(path, length)
    return f"{path.relative_to(run)} has {length} bytes"


def torn(rng: Rng, run: Path, outside: Path) -> str:
    path = run / rng.choice(FILES) if rng.random() < 0.7 else _some_file(rng, run)
    data = _bytes(path)
    os.chmod(path, 0o644)
    cut = rng.randrange(len(data) + 1)
    path.write_bytes(data[:cut])
    return f"{path.relative_to(run)} at {cut}"


def encoding(rng: Rng, run: Path, outside: Path) -> str:
    path = run / rng.choice(FILES) if rng.random() < 0.8 else _some_file(rng, run)
    data, how = _bytes(path), rng.choice(("bom", "utf-16", "invalid", "nul", "surrogate", "flip", "cr"))
    at = rng.randrange(len(data) + 1)
    changed = {
        "bom": b"\xef\xbb\xbf" + data, "utf-16": data.decode(errors="replace").encode("utf-16"),
        "invalid": data[:at] + b"\xff\xfe\x80" + data[at:], "nul": data[:at] + b"\0" * 10 + data[at:],
        "surrogate": data[:at] + b"\\ud800" + data[at:], "cr": data.replace(b"\n", b"\r\n"),
        "flip": data[:at] + bytes([rng.randrange(256)]) + data[at + 1 :],
    }  # fmt: skip
    os.chmod(path, 0o644)
    path.write_bytes(changed[how])
    return f"{path.relative_to(run)} {how}"


def deep_folders(rng: Rng, run: Path, outside: Path) -> str:
    """Add folders that are deeper than a path may be long."""
    where = run / rng.choice(("", "feedback/submit_001", "logs", "workspace/system", "hidden"))
    _check_inside(where, run)
    if where == run / "feedback/submit_001":
        where.mkdir(parents=True, exist_ok=True)
        os.chmod(where, 0o755)
    here = os.open(where, os.O_RDONLY)
    for _ in range(1500):
        os.mkdir("d", dir_fd=here)
        inner = os.open("d", os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = inner
    os.close(here)
    return str(where.relative_to(run))


def transcript(rng: Rng, run: Path, outside: Path) -> str:
    """Record one turn, with a hostile transcript."""
    lines = {
        "digits": '{"type":"tool_result","output":"submit_' + "9" * 5000 + '"}',
        "number": '{"usage":{"input_tokens":' + "9" * 5000 + "}}",
        "deep": '{"input":' + "[" * DEEP + "]" * DEEP + "}",
        "rather deep": '{"input":' + "[" * 900 + "]" * 900 + "}",
        "nan": '{"usage":{"input_tokens":NaN,"output_tokens":-Infinity}}',
        "surrogate": '{"type":"tool_result","output":"submit_001 \\ud800"}',
        "many": '{"input":"cat feedback/submit_001/x"}\n' * 20_000,
    }
    how = rng.choice(sorted(lines))
    _check_inside(run / "logs" / "agent" / "turn_001.out", run)
    (run / "logs" / "agent").mkdir(parents=True, exist_ok=True)
    (run / "logs" / "agent" / "turn_001.out").write_text(lines[how] + "\n", errors="surrogatepass")
    facts = json.loads(_text(run / "run.json"))
    turn = {"exit_code": 0, "wall_s": 1.0, "submissions": 1, "failure": None, "stop": True, "model": None}
    facts["turns"] = [turn | {"usage": None, "price": None}]
    (run / "run.json").write_text(json.dumps(facts))
    return how


def checkpoint_name(rng: Rng, run: Path, outside: Path) -> str:
    """Make the record and the ledger name a checkpoint folder elsewhere."""
    name = json.loads(_text(run / "run.json"))["submissions"][0]["checkpoint"]
    other = rng.choice(
        ("../../outside/folder", str(outside), "..", "", "\\u0000", "a" * 64, name.upper(), name + "\\n")
    )
    for file in (run / "run.json", run / "ledger.jsonl"):
        file.write_text(_text(file).replace(name, other))
    if rng.random() < 0.7:
        _write_chain(run, [json.loads(line) for line in _text(run / "ledger.jsonl").splitlines()])
    return other[:40]


def suite_folder(rng: Rng, run: Path, outside: Path) -> str:
    """Change the file of the suite that the run is in, or replace the run's log."""
    suite, how = run.parent.parent, rng.choice(("task", "file", "key", "log"))
    if how == "log":
        (suite / "logs").mkdir(exist_ok=True)
        _remove(log := suite / "logs" / f"{run.name}.log")
        os.mkfifo(log) if rng.random() < 0.5 else log.symlink_to(
            rng.choice((outside / "secret", "/dev/zero", log.name))
        )
        return how
    if how == "file":
        _remove(suite / "suite.toml")
        (suite / "suite.toml").symlink_to(outside / rng.choice(("secret.toml", "pipe.toml")))
        return how
    text = _text(suite / "suite.toml")
    tasks = f'tasks = ["{rng.choice((f"{outside}/secret.toml", f"{outside}/pipe.toml", "planted:Env-v0", "../x"))}", '
    key = f'\n[splits]\nseal_key = "{outside}/{rng.choice(("secret", "pipe"))}"\n[defaults]\ntext = "blind"\n'
    (suite / "suite.toml").write_text(text.replace("tasks = [", tasks) if how == "task" else text + key)
    return how


def recording(rng: Rng, run: Path, outside: Path) -> str:
    """Add recorded calls to a model, with a hostile head, body or frame."""
    facts = {"kind": "exchange", "number": 1, "turn": 1, "api": "anthropic-messages", "method": "POST",
             "target": "/v1/messages", "request_headers": [], "request_body": [0, 1], "status": 200,
             "response_headers": [], "response_body": [0, 1], "is_complete": True, "started_at": 1.0,
             "first_byte_s": 1.0, "duration_s": 1.0, "first": 0, "sizes": [2]}  # fmt: skip
    body = rng.choice(
        (b"{}", b"[" * DEEP, b'{"messages":[{"role":"user","content":"\\ud800\x1b[2J"}]}', b"\0" * (32 << 20))
    )
    facts["sizes"] = [len(body)]
    said = "" if rng.random() < 0.3 else _change(rng, facts, outside)
    frames = frame(_dump(facts).encode() + b"\n" + body) * rng.choice((1, 3))
    path = run / "logs" / "model" / "exchanges.bin"
    _check_inside(path, run)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(frames[: rng.randrange(len(frames) + 1)] if rng.random() < 0.2 else frames)
    return f"{said}, body of {len(body)}"


def deep_call(rng: Rng, run: Path, outside: Path) -> str:
    """Record calls of a tool whose arguments are nested almost too deep for a parser, as text or as values. Few depths
    are read by one program and too deep for the next one, so there is a call for each."""
    first, api = rng.randint(900, 960), rng.choice(("openai-chat", "openai-chat", "anthropic-messages"))
    asked = json.dumps({"model": "m", "messages": [{"role": "user", "content": "hello"}]}).encode()
    written = b""
    for number, depth in enumerate(range(first, first + 40)):
        answer = _deep_answer(api, '{"x":' + "[" * depth + "]" * depth + "}").encode()
        head = {"kind": "exchange", "number": number + 1, "turn": 1, "api": api, "method": "POST", "target": "/v1",
                "request_headers": [], "request_body": [2 * number, 1], "status": 200, "response_headers": [],
                "response_body": [2 * number + 1, 1], "is_complete": True, "started_at": 1.0, "first_byte_s": 1.0,
                "duration_s": 1.0, "first": 2 * number, "sizes": [len(asked), len(answer)]}  # fmt: skip
        written += frame(_dump(head).encode() + b"\n" + asked + answer)
    path = run / "logs" / "model" / "exchanges.bin"
    _check_inside(path, run)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(written)
    return f"{api}, {first} deep and more"


def _deep_answer(api: str, arguments: str) -> str:
    if api == "anthropic-messages":
        content = [{"type": "tool_use", "id": "c1", "name": "f", "input": "@"}]
        facts: Any = {"id": "x", "type": "message", "role": "assistant", "content": content}
        return json.dumps(facts).replace('"@"', arguments)
    calls = [{"id": "c1", "function": {"name": "f", "arguments": arguments}}]
    return json.dumps({"choices": [{"message": {"role": "assistant", "content": "hi", "tool_calls": calls}}]})


def call_file(rng: Rng, run: Path, outside: Path) -> str:
    """Write the list of calls to the model with wrong types, or with very many lines."""
    call: Any = {"number": 1, "turn": 1, "api": "openai-chat", "status": 200, "is_complete": True, "model": "m",
                 "usage": {"fresh_input": 1, "output": 1, "cost_usd": 0.1, "requests": 1}, "first_byte_s": 0.1,
                 "duration_s": 0.2}  # fmt: skip
    how = rng.choice(("type", "type", "change", "newlines", "deep", "many"))
    if how == "type":
        name = rng.choice(sorted(call))
        call[name] = str(call[name])
    said = _change(rng, call, outside) if how == "change" else how
    text = {"newlines": "\n" * (2 << 20), "deep": "[" * DEEP, "many": f"{_dump(call)}\n" * 20_000}
    path = run / "logs" / "agent" / "model_calls.jsonl"
    _check_inside(path, run)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text.get(how, f"{_dump(call)}\n"), errors="surrogatepass")
    return said


def odd_name(rng: Rng, run: Path, outside: Path) -> str:
    """Add a file or a folder whose name is not UTF-8; in half of the cases the record says nothing of the code, so that
    it is read from the checkpoints."""
    checkpoints = sorted((run / "checkpoints").glob("*"))
    places = [*checkpoints, run / "workspace" / "system", run / "workspace", run / "feedback" / "submit_001",
              run / "checkpoints", run / "logs" / "agent", run]  # fmt: skip
    folder = rng.choice(checkpoints if checkpoints and rng.random() < 0.5 else places)
    _check_inside(folder, run)
    folder.mkdir(parents=True, exist_ok=True)
    os.chmod(folder, 0o755)
    others = (b"policy\xe9.py", b"\xff.json", b"\xc3(", b"\xed\xa0\x80.npz", b"turn_001.out\xff")
    name = b"\xff.py" if rng.random() < 0.5 else rng.choice(others)
    path = os.fsencode(folder) + b"/" + name
    if kind := rng.choice(("folder", "", "")):
        os.mkdir(path)
        path += b"/" + name
    os.close(os.open(path, os.O_CREAT | os.O_WRONLY, 0o644))
    said = f"{name!r} {kind} in {folder.relative_to(run)}"
    if rng.random() < 0.5:
        return said
    facts = json.loads(_text(run / "run.json"))
    for made in facts["checkpoints"]:
        made["code"] = None
    (run / "run.json").write_text(_dump(facts))
    return f"{said}, no code"


def sparse_suite(rng: Rng, run: Path, outside: Path) -> str:
    """Plan many runs whose ledgers and logs are large, but take no place on the disk."""
    suite, repeats = run.parent.parent, rng.choice((3, 30, 600))
    task, agent, _ = run.name.split("__")
    (suite / "suite.toml").write_text(f"repeats = {repeats}\n" + _text(suite / "suite.toml"))
    made = rng.choice(("ledger", "log", "superseded"))
    for repeat in range(1, repeats):
        name = f"{task}__{agent}__s{repeat}"
        path = {"ledger": suite / "runs" / name / "ledger.jsonl", "log": suite / "logs" / f"{name}.log",
                "superseded": suite / "superseded" / f"{name}__1" / "ledger.jsonl"}[made]  # fmt: skip
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
        os.truncate(path, rng.choice((64 << 20, 64 << 20, 128 << 20)))
    return f"{repeats} runs, {made}"


def numerous(rng: Rng, run: Path, outside: Path) -> str:
    """Repeat a line of the ledger, or the submissions of the record, very often."""
    number = rng.choice((300, 300, 300, 3000))
    if rng.random() < 0.5:
        lines = [json.loads(line) for line in _text(run / "ledger.jsonl").splitlines()]
        at = rng.randrange(len(lines))
        _write_chain(run, [*lines[:at], *[lines[at]] * number, *lines[at:]])
        return f"{number} lines {lines[at]['kind']}"
    facts = json.loads(_text(run / "run.json"))
    made = [submission | {"charged": 0} for submission in facts["submissions"]]
    facts["submissions"] = [made[index % len(made)] | {"number": index + 1} for index in range(number)]
    (run / "run.json").write_text(_dump(facts))
    return f"{number} submissions"


KINDS: tuple[Callable[[Rng, Path, Path], str], ...] = (
    *(record_field, ledger_field, ledger_field, ledger_lines, settings, link, planted_link, planted_login, other_kind),
    *(size, torn, encoding, deep_folders, transcript, checkpoint_name, record_field, record_cases),
    *(suite_folder, recording, numerous, fingerprint, fingerprint),
    *(number, number, deep_call, call_file, odd_name, sparse_suite),
)


def _change(rng: Rng, facts: Any, outside: Path) -> str:
    """Change one value in nested tables and lists."""
    places: list[tuple[Any, Any, str]] = []
    _places(facts, "", places)
    table, key, path = rng.choice(places)
    how = rng.choice((*VALUES, "delete", "outside", "extra"))
    if how == "delete":
        del table[key]
    elif how == "extra" and isinstance(table, dict):
        table["unknown\ud800"] = 1
    else:
        table[key] = str(outside / "secret") if how in ("outside", "extra") else VALUES[how]
    return f"{path} {how}"


VALUES: dict[str, Any] = {
    "null": None, "list": [], "table": {}, "string": "x", "empty": "", "minus": -1, "zero": 0, "huge": 10**18,
    "float": 1e308, "small": -1e308, "long": "x" * 1_000_000, "true": True, "surrogate": "\ud800", "nul": "\0",
    "up": "../../outside/folder", "date": "0001-01-01T00:00:00Z", "naive": "2026-01-01T00:00:00", "half": 0.5,
    "@nan": None, "@digits": None, "@many digits": None, "@deep": None, "@infinity": None, "@rather deep": None,
}  # fmt: skip
WRITTEN = {
    "@nan": "NaN", "@digits": "9" * 5000, "@many digits": "9" * 400, "@deep": "[" * DEEP + "]" * DEEP,
    "@infinity": "1e999", "@rather deep": '{"x":' * 150 + "1" + "}" * 150,
}  # fmt: skip
VALUES |= {name: name for name in WRITTEN}  # what json cannot write is put in afterwards


def _places(facts: Any, path: str, found: list[tuple[Any, Any, str]]) -> None:
    pairs = facts.items() if isinstance(facts, dict) else enumerate(facts) if isinstance(facts, list) else ()
    for key, value in pairs:
        found.append((facts, key, f"{path}.{key}"[:60]))
        _places(value, f"{path}.{key}", found)


def _dump(facts: Any) -> str:
    text = json.dumps(facts, separators=(",", ":"))
    for name, written in WRITTEN.items():
        text = text.replace(f'"{name}"', written)
    return text


def _write_chain(run: Path, lines: list[dict[str, Any]]) -> None:
    previous, written = "0" * 64, list[bytes]()
    for number, line in enumerate(lines):
        whole = {"sequence": number, "time": None, "kind": None, "data": None} | line
        for name, value in (("sequence", number), ("previous", previous)):
            if whole.get(name) not in WRITTEN and type(whole.get(name, "")) in (int, str):
                whole[name] = value
        raw = _dump(whole).encode()
        previous = hashlib.sha256(raw).hexdigest()
        written.append(raw + b"\n")
    (run / "ledger.jsonl").write_bytes(b"".join(written))


def _check_inside(path: Path, run: Path) -> None:
    """Check that a path is inside the run: an earlier mutation may have made a part of it a link."""
    if not path.resolve().is_relative_to(run.resolve()):
        raise OSError("leads outside")


def _bytes(path: Path) -> bytes:
    """Read a file that an earlier mutation may have made a pipe, a link, or a file without end."""
    if path.is_symlink() or not path.is_file() or path.stat().st_size > 4 << 20:
        raise OSError("no plain file any more")
    return path.read_bytes()


def _text(path: Path) -> str:
    return _bytes(path).decode()


def _some_path(rng: Rng, run: Path) -> Path:
    if rng.random() < 0.4:
        return run / rng.choice(FILES)
    found = [path for path in sorted(run.rglob("*")) if "site-packages" not in path.parts]
    return rng.choice(found)


def _some_file(rng: Rng, run: Path) -> Path:
    found = [path for path in sorted(run.rglob("*")) if path.is_file() and not path.is_symlink()]
    return rng.choice([path for path in found if path.stat().st_size < 1 << 20])


def _remove(path: Path) -> None:
    os.chmod(path.parent, 0o755)
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    elif os.path.lexists(path):
        path.unlink()
