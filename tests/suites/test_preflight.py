"""What cannot be played is named before the first run starts, and nothing starts unless it is left out on purpose."""

from __future__ import annotations

import json
import os

from suite_helpers import TOY, SuiteRunner

from server_helpers import command

MIXED = f"{TOY}[limits]\ndollars = 5\n"
MISSING = "[agents.missing]\nname = 'command'\ncommand = ['./no-such-program']\n"
MINE = "[agents.mine]\nname = 'command'\ncommand = ['/bin/sh']\nvariables = ['NO_SUCH_VARIABLE']\n"
AGENTS = f"[agents.starter]\n[agents.invented]\n{MISSING}{MINE}"


def test_nothing_starts_when_something_cannot_be_played(tmp_path):
    suite = SuiteRunner(tmp_path, MIXED + AGENTS)
    done = suite.run()
    assert done.returncode == 2 and not suite.folder.exists()
    assert "3 runs of this suite cannot be played here" in done.stderr and "Nothing was started" in done.stderr
    assert "there is no agent 'invented'" in done.stderr and "NO_SUCH_VARIABLE is not set" in done.stderr
    assert "no-such-program does not exist" in done.stderr and "Create it or correct the path" in done.stderr


def test_a_dry_run_says_what_is_ready_and_what_is_not(tmp_path):
    suite = SuiteRunner(tmp_path, MIXED + AGENTS)
    done = suite.run("--dry-run", "--json")
    facts = json.loads(done.stdout)
    checks = {(check["kind"], check["name"]): check for check in facts["preflight"]["checks"]}
    assert done.returncode == 1 and not facts["preflight"]["ready"] and not suite.folder.exists()
    assert checks["agent", "starter"]["ok"] and not checks["agent", "invented"]["ok"]
    assert checks["task", "toys:Toy-v0"]["ok"] and checks["isolation", "policies"]["ok"]
    assert {name.split("__")[1] for name in facts["preflight"]["unready"]} == {"invented", "mine", "missing"}
    text = suite.run("--dry-run").stdout
    assert "at most" not in text.partition("dollars")[2].partition("\n")[0] and "preflight: NOT READY" in text


def test_a_simulator_that_ends_its_process_is_named(tmp_path):
    broken = tmp_path / "ends_at_once.py"
    broken.write_text(
        "import gymnasium, os\n"
        "class Ends(gymnasium.Env):\n"
        "    observation_space = action_space = gymnasium.spaces.Discrete(2)\n"
        "    def reset(self, **_): os._exit(9)\n"
        "gymnasium.register('Ends-v0', Ends, max_episode_steps=5)\n"
    )
    text = MIXED.replace('"toys:Toy-v0"', '"toys:Toy-v0", "ends_at_once:Ends-v0"') + "[agents.starter]\n"
    suite = SuiteRunner(tmp_path, text)
    path = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])
    done = command(*suite.arguments(), env={**os.environ, "PYTHONPATH": path})
    assert done.returncode == 2 and "ends_at_once:Ends-v0" in done.stderr and "exit code 9" in done.stderr, done.stderr


def test_what_is_left_out_is_reported_and_the_rest_is_played(tmp_path):
    suite = SuiteRunner(tmp_path, MIXED + "[agents.starter]\n[agents.invented]\n")
    done = suite.run("--skip-unready", "--json")
    rows = {row["agent"]: row for row in json.loads(done.stdout)["runs"]}
    assert done.returncode == 1, "something that was asked for is missing"
    assert rows["starter"]["status"] == "scored" and rows["invented"]["status"] == "unready"
    assert "left out: 1 run" in done.stderr and suite.names() == ["toys-Toy-v0__starter__s0"]
    assert f"continue with `evopolicygym suite run {suite.folder} --skip-unready`" in done.stderr
    later = suite.rows()["toys-Toy-v0__invented__s0"]
    assert (later["status"], later["reason"]) == ("unready", rows["invented"]["reason"]), "it is not waiting"
    for table in ("[]", '{"runs": [1]}', '{"runs": [{"run": [], "status": "unready", "reason": {}}]}', "\0"):
        (suite.folder / "suite.json").write_text(table)
        assert suite.rows()["toys-Toy-v0__invented__s0"]["status"] == "waiting"
