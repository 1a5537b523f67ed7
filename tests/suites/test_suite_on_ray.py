"""A suite on Ray: many runs on the workers of one cluster, with the same outcomes as on this machine."""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from pathlib import Path

import pytest
from suite_helpers import TOY, SuiteRunner, comparable_facts, kill_scheduler

from process_helpers import wait_until
from server_helpers import command

AGENTS = "[agents.starter]\n[agents.tuner]\n"


@pytest.fixture
def short(monkeypatch):
    """A folder for temporary files: the names of Ray's sockets are long, and those of tests are longer."""
    folder = Path(tempfile.mkdtemp(prefix="epg-", dir="/tmp"))
    monkeypatch.setenv("TMPDIR", str(folder))
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


def test_a_suite_on_ray_ends_as_it_does_here(tmp_path):
    here, there = SuiteRunner(tmp_path / "here", TOY + AGENTS), SuiteRunner(tmp_path / "there", TOY + AGENTS)
    for work, options in ((here, ()), (there, ("--engine", "ray"))):
        done = work.run("--jobs", 2, *options)
        assert done.returncode == 0, done.stderr
    assert here.names() == there.names() and len(here.names()) == 2
    for name in here.names():
        assert comparable_facts(there.record(name)) == comparable_facts(here.record(name))
        (node,) = there.record(name)["isolation"]["nodes"]
        assert node["seats"] == min(2, len(os.sched_getaffinity(0)))
        assert there.record(name)["ids"] == here.record(name)["ids"]
    verified = command("verify", there.folder / "runs" / here.names()[-1], "--jobs", 1)
    assert verified.returncode == 0, verified.stdout


@pytest.mark.slow
def test_a_suite_on_ray_that_is_killed_goes_on_and_leaves_nothing(tmp_path, short):
    undisturbed, killed = SuiteRunner(tmp_path / "one", TOY + AGENTS), SuiteRunner(tmp_path / "two", TOY + AGENTS)
    assert undisturbed.run("--jobs", 2).returncode == 0
    for seconds in (3.0, 9.0, 11.0):
        process = killed.start("--jobs", 2, "--engine", "ray")
        time.sleep(seconds)
        kill_scheduler(process)
        assert wait_until(lambda: not list(short.iterdir()), 60), list(short.rglob("*"))
    done = killed.run("--jobs", 2, "--engine", "ray")
    assert done.returncode == 0, done.stderr
    for name in undisturbed.names():
        assert comparable_facts(killed.record(name)) == comparable_facts(undisturbed.record(name))
