"""The integrity note: signs are found where they are, and not where they are not."""

from __future__ import annotations

import json

import pytest

from evopolicygym.judge.place import Place
from evopolicygym.runs.integrity import inspect, signs


@pytest.fixture
def place(tmp_path):
    place = Place(tmp_path / "run")
    place.make()
    (place.logs / "agent").mkdir()
    return place


def kinds(place):
    return {sign.kind for sign in signs(place)}


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("import gymnasium as gym", "simulator_import"),
        ("    from minigrid.core import grid", "simulator_import"),
        ("importlib.import_module('mujoco')", "simulator_import"),
        ("pip install gymnasium", "install"),
        ("python -m pip --quiet download box2d", "install"),
        ("git clone https://example.org/x", "download"),
        ("cat ../ledger.jsonl", "read_outside"),
        ("open('/proc/1234/environ')", "read_outside"),
        ("LINK_LENGTH_1 = 1.0", "copied_dynamics"),
    ],
)
def test_a_sign_in_a_file_or_in_a_transcript(place, text, kind):
    (place.system / "policy.py").write_text(f"x = 1\n{text}\n")
    assert kinds(place) == {kind}
    (place.system / "policy.py").write_text("x = 1\n")
    (place.logs / "agent" / "turn_001.jsonl").write_text(json.dumps({"command": f"x\n{text}\n"}))
    assert kinds(place) == {kind}


def test_honest_work_shows_no_signs(place):
    (place.system / "policy.py").write_text("import numpy as np\nimport json\n# gymnastics, not a gym\n")
    (place.logs / "agent" / "turn_001.jsonl").write_text(
        '{"command": "python submit.py 0-7; curl http://127.0.0.1:1/x"}'
    )
    (place.workspace / "AGENTS.md").write_text("import gymnasium")
    assert not kinds(place)


def test_links_are_not_followed_and_bytes_do_no_harm(place, tmp_path):
    (tmp_path / "secret").write_text("import gymnasium")
    (place.workspace / "link").symlink_to(tmp_path / "secret")
    (place.workspace / "loop").symlink_to(place.workspace)
    (place.workspace / "bytes").write_bytes(bytes(range(256)) * 100)
    assert inspect(place)["signs"] == []
