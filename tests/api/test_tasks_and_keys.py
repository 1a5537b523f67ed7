"""Lists of tasks, and sealing keys, as the commands `task list` and `seeds` have them."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

import evopolicygym
from evopolicygym.tasks.novel.generate import family_version, novel
from server_helpers import COMMAND

LIST_EVERYTHING = "import evopolicygym, json; print(json.dumps(evopolicygym.list_tasks(everything=True)))"


def test_everything_is_what_the_command_lists():
    """Both in new processes: what else was imported registers environments, too."""
    everything = json.loads(subprocess.check_output([sys.executable, "-c", LIST_EVERYTHING]))
    assert set(evopolicygym.list_tasks()) < set(everything) and "LunarLander-v3" in everything
    listed = json.loads(subprocess.check_output([*COMMAND, "task", "list", "--all", "--json"]))
    assert [row["id"] for row in listed] == everything
    versions = {row["id"]: row["version"] for row in listed}
    generated = {name: family_version(task.family) for name, task in novel().items()}
    assert versions.items() >= generated.items() and versions["core16/acrobot"] == 1


def test_a_sealing_key_is_disclosed_on_purpose_alone(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    created = evopolicygym.create_seal_key()
    assert created.file == tmp_path / "evopolicygym" / "seal.key" and created.key not in repr(created)
    assert evopolicygym.load_seal_key() == created
    with pytest.raises(evopolicygym.UserError, match="never overwritten"):
        evopolicygym.create_seal_key(created.file)
    monkeypatch.setenv("EVOPOLICYGYM_SEAL_KEY", "ab" * 32)
    used = evopolicygym.load_seal_key()
    assert used.file is None and used.splits_id != created.splits_id
