"""`resume`: a run continues by its folder alone, unless another installation opened it and it grants its agent more."""

from __future__ import annotations

from pathlib import Path

import pytest

import evopolicygym

OUTAGE = """
import pathlib, subprocess, sys
if not pathlib.Path("online").exists():
    sys.exit(75)  # no route to its model
subprocess.run([sys.executable, "submit.py", "0-1"], check=True)
"""


@pytest.fixture
def suspended(tmp_path: Path) -> Path:
    """A run whose agent could not reach its model, and can now."""
    (tmp_path / "agent.py").write_text(OUTAGE)
    command, folder = ["python3", str(tmp_path / "agent.py")], tmp_path / "run"
    with pytest.raises(evopolicygym.RunSuspended):
        evopolicygym.run(
            "core16/mountain-car-continuous",
            command,
            budget=2,
            validation_cases=1,
            heldout_cases=1,
            seeds="paper",
            max_retries=0,
            folder=folder,
        )
    (folder / "workspace" / "online").touch()
    return folder


def test_a_suspended_run_continues_by_its_folder_alone(suspended):
    phases = set()
    run = evopolicygym.resume(suspended, jobs=1, progress=lambda step: phases.add(step.phase))
    assert (run.outcome, run.folder) == ("scored", suspended) and phases
    assert [turn.failure for turn in run.record.turns] == ["provider", None]
    assert evopolicygym.resume(suspended) == run
    with pytest.raises(evopolicygym.UserError, match="holds a run with other settings"):
        evopolicygym.resume(suspended, task="core16/acrobot")


def test_a_run_of_another_installation_grants_nothing_by_itself(suspended, tmp_path, monkeypatch):
    """The program of its agent is a file of this machine, which would be shown to it."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "another"))
    with pytest.raises(evopolicygym.UserError, match=r"(?s)more permissions .*pass trust_agent=True"):
        evopolicygym.resume(suspended, jobs=1)
    assert len(evopolicygym.load_run(suspended).record.turns) == 1
    assert evopolicygym.resume(suspended, jobs=1, trust_agent=True).outcome == "scored"


def test_what_cannot_be_resumed_is_refused(tmp_path):
    with pytest.raises(evopolicygym.UserError, match="holds no run"):
        evopolicygym.resume(tmp_path)
    with evopolicygym.serve("core16/mountain-car-continuous", tmp_path / "served", seeds="paper"):
        pass
    with pytest.raises(evopolicygym.UserError, match="has no agent"):
        evopolicygym.resume(tmp_path / "served")
    with pytest.raises(evopolicygym.UserError, match="engine is 'fog'"):
        evopolicygym.resume(tmp_path / "served", engine="fog")
