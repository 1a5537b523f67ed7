"""The integrity note: it names every sign of cheating and nothing else, whatever files the agent leaves."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from evopolicygym.run_paths import RunPaths
from evopolicygym.runs import integrity
from evopolicygym.runs.integrity import SUFFIX
from evopolicygym.runs.serve import inspect_leftovers
from evopolicygym.sandbox import limited_process
from server_helpers import AS_USER


@pytest.fixture
def paths(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # a walk goes elsewhere
    paths = RunPaths(tmp_path / "run")
    paths.make()
    (paths.logs / "agent").mkdir()
    yield paths
    subprocess.run(["rm", "-rf", paths.root])  # at any depth, which pytest cannot


def kinds(paths):
    return {sign["kind"] for sign in integrity.find_signs(paths.root)["signs"]}


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
def test_a_sign_in_a_file_or_in_a_transcript_is_found(paths, text, kind):
    (paths.system / "policy.py").write_text(f"x = 1\n{text}\n")
    assert kinds(paths) == {kind}
    (paths.system / "policy.py").write_text("x = 1\n")
    (paths.logs / "agent" / "turn_001.jsonl").write_text(json.dumps({"command": f"x\n{text}\n"}))
    assert kinds(paths) == {kind}


def test_honest_work_shows_no_signs(paths):
    (paths.system / "policy.py").write_text("import numpy as np\nimport json\n# gymnastics, not a gym\n")
    (paths.logs / "agent" / "turn_001.jsonl").write_text(
        '{"command": "python submit.py 0-7; curl http://127.0.0.1:1/x"}'
    )
    (paths.workspace / "AGENTS.md").write_text("import gymnasium")
    (paths.workspace / "HEAD").write_text("no repository")
    note = inspect_leftovers(paths)
    assert (note["signs"], note["renamed"], note["error"]) == ([], [], None)
    assert sorted(os.listdir(paths.workspace)) == ["AGENTS.md", "HEAD", "system"]


def test_links_are_not_followed_and_any_bytes_are_read(paths, tmp_path):
    (tmp_path / "secret").write_text("import gymnasium")
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / ".git").mkdir()
    (paths.workspace / "link").symlink_to(tmp_path / "secret")
    (paths.workspace / "folder").symlink_to(tmp_path / "elsewhere")
    (paths.workspace / "loop").symlink_to(paths.workspace)
    (paths.workspace / "zero").symlink_to("/dev/zero")
    (paths.workspace / "bytes").write_bytes(bytes(range(256)) * 100)
    note = inspect_leftovers(paths)
    assert (note["signs"], note["renamed"], note["error"]) == ([], [], None)
    assert (tmp_path / "elsewhere" / ".git").exists()


def test_a_workspace_that_is_a_link_is_not_searched(paths, tmp_path):
    (tmp_path / "elsewhere" / ".git").mkdir(parents=True)
    paths.workspace.rename(tmp_path / "away")
    paths.workspace.symlink_to(tmp_path / "elsewhere")
    note = inspect_leftovers(paths)
    assert note["renamed"] == [] and "cannot be entered" in note["not_checked"][-1]
    assert (tmp_path / "elsewhere" / ".git").exists()


REPEATED = [b"\n", b" ", b"\t\n", b"pip -", b"pip -pip ", b"pip ", b"curl ", b"git ", b"/proc/1", b"0.0025 ", b"import"]


@pytest.mark.timeout(120)
@pytest.mark.parametrize("text", REPEATED)
def test_no_text_takes_long_to_search(text, paths):
    """Each pattern takes less than a second of CPU time for this; a quadratic one takes hours, which ends the test."""
    (paths.workspace / "file").write_bytes(text * ((1 << 20) // len(text)))
    note = inspect_leftovers(paths)
    assert note["error"] is None


def nested(folder, depth):
    """Deeper than any path can be."""
    descriptor = os.open(folder, os.O_RDONLY)
    for _ in range(depth):
        os.mkdir("deep", dir_fd=descriptor)
        inner = os.open("deep", os.O_RDONLY, dir_fd=descriptor)
        os.close(descriptor)
        descriptor = inner
    return descriptor


def test_signs_are_found_at_any_depth(paths):
    bottom = nested(paths.workspace, 2000)
    os.mkdir(".git", dir_fd=bottom)
    os.close(os.open("sign.py", os.O_CREAT | os.O_WRONLY, dir_fd=bottom))
    with open(os.open("sign.py", os.O_WRONLY, dir_fd=bottom), "w") as file:
        file.write("import gymnasium")
    note = inspect_leftovers(paths)
    assert note["error"] is None and note["signs"][0]["where"].endswith("deep/deep/sign.py")
    assert len(note["renamed"]) == 1 and note["renamed"][0].endswith("deep/.git")
    assert sorted(os.listdir(bottom)) == [".git" + SUFFIX, "sign.py"]
    os.close(bottom)


def test_an_incomplete_search_is_reported(paths, monkeypatch):
    monkeypatch.setattr(integrity.FolderWalk.__init__, "__defaults__", (10,))
    for number in range(20):
        (paths.workspace / f"a{number}").mkdir()
    (paths.workspace / ".git").mkdir()
    part = integrity.rename_autorun(paths.root)
    assert part["renamed"] == ["workspace/.git"], "what lies on top is asked for by name"
    assert any("beyond the first 10" in text for text in part["not_checked"])


def test_a_large_file_does_not_hide_others(paths):
    with open(paths.workspace / "a.bin", "wb") as sparse:
        sparse.truncate(1 << 40)
    (paths.workspace / "b.py").write_text("import gymnasium")
    note = inspect_leftovers(paths)
    assert note["error"] is None and [sign["where"] for sign in note["signs"]] == ["workspace/b.py"]
    assert any("MiB of a file" in text and "1 files" in text for text in note["not_checked"])


@pytest.mark.parametrize(
    ("body", "error"),
    [
        ("os.abort()", "could not be inspected: the process that did it ended with SIGABRT"),
        ("limit(1, 1 << 30)\nwhile True: pass", "took more than"),
        ("print('{')", "could not be inspected: JSONDecodeError"),
    ],
)
def test_a_search_that_dies_is_reported(paths, monkeypatch, body, error):
    monkeypatch.setattr(limited_process, "CODE", "import os, sys\nsys.path.append(sys.argv[1])\n"
                        f"from evopolicygym.sandbox.limited_process import limit\n{body}")  # fmt: skip
    note = inspect_leftovers(paths)
    assert error in note["error"] and note["signs"] == [] and note["not_checked"]


def test_renamed_files_are_recorded_when_the_search_fails(paths, monkeypatch):
    (paths.workspace / ".envrc").write_text("touch mark")
    monkeypatch.setattr(limited_process, "CODE", "import os, sys\nsys.path.append(sys.argv[1])\n"
                        "from evopolicygym.runs import integrity\n"
                        "integrity.find_signs = lambda root: os.abort()\n"
                        "integrity.main(sys.argv[3])")  # fmt: skip
    note = inspect_leftovers(paths)
    assert note["renamed"] == ["workspace/.envrc"] and "SIGABRT" in note["error"]


CLOSED = """
import os, sys
from pathlib import Path
from evopolicygym.runs import integrity
root = Path(sys.argv[1])
for mode in (0o000, 0o111, 0o555):
    folder = root / "workspace" / oct(mode)
    (folder / ".git").mkdir(parents=True)
    folder.chmod(mode)
part = integrity.rename_autorun(root)
print(len(part["renamed"]), part["not_checked"], *sorted(os.listdir(root / "workspace/0o555")))
"""


def test_inaccessible_folders_are_searched(tmp_path):
    """The judge is an ordinary user, and the agent runs as the same user."""
    tmp_path.chmod(0o777)
    for path in tmp_path.parents:
        if path.stat().st_uid == os.geteuid() and not path.stat().st_mode & 0o001:
            path.chmod(path.stat().st_mode | 0o001)
    user = [sys.executable, str(AS_USER)] if os.geteuid() == 0 else []
    done = subprocess.run([*user, sys.executable, "-c", CLOSED, str(tmp_path / "run")], capture_output=True, text=True)
    assert done.stdout == f"3 [] .git{SUFFIX}\n", done.stderr
