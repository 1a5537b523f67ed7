"""Whether a client can run here: its version, its Python, its login; and one tiny turn in its sandbox."""

from __future__ import annotations

import json
import time
import venv

import pytest
from gateway_helpers import RawServer
from run_helpers import RealClientRun, run_command
from scripted_model import ScriptedModel

from evopolicygym.agents import definitions
from evopolicygym.agents.readiness import check
from server_helpers import COMMAND


def make_program(folder, name: str, prints: str) -> dict[str, str]:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(f"#!/bin/sh\necho {prints}\n")
    (folder / name).chmod(0o755)
    return {"PATH": f"{folder}:/usr/bin:/bin"}


@pytest.mark.parametrize(("version", "is_too_old"), [("0.120.0", True), ("0.134.0", False), ("1.0", False)])
def test_a_version_that_is_too_old_is_refused(version, is_too_old, tmp_path):
    codex = definitions.load("codex")
    environment = make_program(tmp_path / "bin", "codex", f"codex-cli {version}") | {"OPENAI_API_KEY": "x"}
    result = check(codex, environment, tmp_path)
    assert any("too old: 0.134.0 or newer is needed. Install: npm" in line for line in result.missing) is is_too_old


def test_a_package_that_its_python_lacks_is_named(tmp_path):
    venv.create(tmp_path / "venv", symlinks=True, with_pip=False)
    environment = make_program(tmp_path / "venv" / "bin", "mini", "mini-swe-agent 2.4.6") | {"OPENAI_API_KEY": "x"}
    mini = definitions.load("mini-swe-agent")
    assert any("lacks mcp" in line for line in check(mini, environment, tmp_path).missing)
    (packages,) = (tmp_path / "venv").glob("lib/python3*/site-packages")
    (packages / "mcp.py").touch()
    assert check(mini, environment, tmp_path).missing == []


@pytest.mark.parametrize(
    ("hours", "renewal", "missing", "remark"),
    [(1, None, False, False), (-1, None, True, False), (-1, "a-token", False, True)],
)
def test_an_expired_login_is_found(hours, renewal, missing, remark, tmp_path):
    login = {"expiresAt": 1000 * (time.time() + 3600 * hours), "refreshToken": renewal}
    (tmp_path / ".claude").mkdir()
    (tmp_path / ".claude/.credentials.json").write_text(json.dumps({"claudeAiOauth": login}))
    environment = make_program(tmp_path / "bin", "claude", "9.9.9")
    result = check(definitions.load("claude"), environment, tmp_path)
    assert [any("expired on" in line for line in lines) for lines in (result.missing, result.remarks)] == [
        missing,
        remark,
    ]
    assert check(definitions.load("claude"), {**environment, "ANTHROPIC_API_KEY": "x"}, tmp_path).missing == []


def test_a_live_turn(tmp_path):
    """The turn runs in the sandbox and through the gateway. A failure is shown as in a run."""
    with ScriptedModel(script=lambda past: "ready") as model:
        real = RealClientRun("codex", model)
        words = [*COMMAND, "agent", "check", "codex", "--live", *real.options[2:]]
        fine = run_command(words, **real.environment)
        model.fault = "401"
        refused = run_command([*words, "--json"], **real.environment)
    assert fine.returncode == 0 and "answered in" in fine.stdout and "'ready'" in fine.stdout, fine.stdout + fine.stderr
    assert refused.returncode == 1 and json.loads(refused.stdout)["live"]["failure"]["kind"] == "authentication"


@pytest.mark.parametrize("name", ["model", "best-of-n"])
def test_a_live_turn_at_a_server_of_ones_own(name):
    """Without a key, which is not said to be one; with a header that the server wants."""
    message = {"role": "assistant", "content": "ready"}
    body = json.dumps({"choices": [{"message": message}], "usage": {"prompt_tokens": 1, "completion_tokens": 1}})
    reply = f"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: {len(body)}\r\n\r\n{body}".encode()
    with RawServer(lambda talk: talk.sendall(reply)) as server:
        done = run_command([
            *COMMAND, "agent", "check", name, "--live", "--json", "--model", "openai/any",
            "--model-url", f"{server.url}/v1", "--model-header", "X-Team=MY_TEAM",
        ], MY_TEAM="red-pandas", OPENAI_API_KEY="")  # fmt: skip
    result = json.loads(done.stdout)
    assert done.returncode == 0 and result["live"]["text"] == "ready" and result["key"] is None, done.stderr
    assert [b"x-team: red-pandas" in request.lower() for request in server.requests] == [True]
