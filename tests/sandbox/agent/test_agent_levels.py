"""A level is used only if it works, and no program starts if a layer of isolation fails."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from dataclasses import replace

import pytest
from agent_testbed import AgentTestbed

from blocked_syscalls import block_syscalls
from evopolicygym.sandbox.agent.agent_sandbox import AgentLevel
from evopolicygym.sandbox.agent.launch import LayerFailed
from evopolicygym.sandbox.agent.levels import best_level

TRY = """
import sys
from evopolicygym.sandbox.agent.agent_sandbox import AgentLevel
from evopolicygym.sandbox.agent.levels import best_level
from evopolicygym.errors import IsolationUnavailable
try:
    print(best_level())
except IsolationUnavailable as error:
    print(error)
"""


def best_where_refused(*calls: str) -> str:
    return subprocess.run(
        [sys.executable, "-c", TRY], preexec_fn=block_syscalls(calls), capture_output=True, text=True, check=True
    ).stdout


def test_the_best_level_of_this_machine_is_used():
    assert best_level() is AgentLevel.A
    assert best_level((AgentLevel.B,)) is AgentLevel.B


def test_without_namespaces_level_b_is_used():
    assert best_where_refused("unshare") == "B\n"


def test_without_landlock_too_no_level_works_and_the_remedy_is_named():
    text = best_where_refused("unshare", "landlock")
    assert "agents cannot be isolated on this machine" in text
    assert "level A: a layer of the agent's sandbox failed: unshare: Operation not permitted (" in text
    assert "Landlock is not available" in text and "needs Linux 5.13" in text
    assert "--agent-isolation none" in text


@pytest.mark.parametrize(("level", "call"), [("A", "unshare"), ("B", "landlock"), ("A", "seccomp"), ("B", "seccomp")])
def test_no_program_starts_if_a_layer_fails(level, call):
    source = f"""
    import sys
    from agent_testbed import AgentTestbed
    from evopolicygym.sandbox.agent.agent_sandbox import AgentLevel
    from evopolicygym.sandbox.agent.launch import LayerFailed
    with AgentTestbed() as testbed:
        try:
            testbed.shell("touch started", AgentLevel.{level})
        except LayerFailed as error:
            print("refused:", (testbed.workspace / "started").exists())
    """
    folder = __file__.rpartition("/")[0]
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(source)], preexec_fn=block_syscalls([call]),
        capture_output=True, text=True, cwd=folder, env={"PYTHONPATH": folder, "PATH": "/usr/bin:/bin"},
    )  # fmt: skip
    assert done.stdout == "refused: False\n", done.stderr


def test_an_incomplete_sandbox_is_noticed_from_inside(monkeypatch):
    """As if the list of visible paths were wrong: the last check in the sandbox notices it."""
    from evopolicygym.sandbox.agent import launch

    visible_files = launch.visible_files

    def too_wide(sandbox):
        visible = visible_files(sandbox)
        return replace(visible, trees=(*visible.trees, launch.runtime().package_root))

    monkeypatch.setattr(launch, "visible_files", too_wide)
    with AgentTestbed() as testbed:
        for level in (AgentLevel.A, AgentLevel.B):
            with pytest.raises(LayerFailed, match="can be read"):
                testbed.shell("true", level)
