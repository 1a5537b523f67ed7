"""A suite on Ray: many runs on the seats of one fleet, with the outcome that they have here."""

from __future__ import annotations

import pytest

from suite_work import TOY, SuiteWork, essence

pytestmark = pytest.mark.xdist_group("ray")
AGENTS = "[agents.starter]\n[agents.tuner]\n"


def test_a_suite_on_ray_ends_as_it_does_here(tmp_path):
    here, there = SuiteWork(tmp_path / "here", TOY + AGENTS), SuiteWork(tmp_path / "there", TOY + AGENTS)
    for work, options in ((here, ()), (there, ("--engine", "ray"))):
        done = work.run("--jobs", 2, *options)
        assert done.returncode == 0, done.stderr
    assert here.names() == there.names() and len(here.names()) == 2
    for name in here.names():
        assert essence(there.record(name)) == essence(here.record(name))
        (node,) = there.record(name)["isolation"]["nodes"]
        assert node["seats"] == 2
