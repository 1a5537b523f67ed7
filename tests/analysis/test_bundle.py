"""The bundle: which files belong to a policy, by reading alone."""

from __future__ import annotations

import os

import pytest
from run_folders import write_checkpoint

from evopolicygym.analysis.edits.bundle import Bundle, read_bundle


def bundle(folder, files: dict[str, str]) -> Bundle:
    return read_bundle(folder / write_checkpoint(folder, files))


@pytest.mark.parametrize(
    ("policy", "others", "reached"),
    [
        ("import numpy, math", ["other.py"], []),
        ("import a", ["a.py", "b.py"], ["a.py"]),
        ("import a as b", ["a.py", "b.py"], ["a.py"]),
        ("import a.b.c", ["a/__init__.py", "a/b/__init__.py", "a/b/c.py", "a/d.py"],
         ["a/__init__.py", "a/b/__init__.py", "a/b/c.py"]),
        ("import a.b.c", ["a/b/c.py", "a/b/__init__.py"], ["a/b/__init__.py", "a/b/c.py"]),
        ("from a import b", ["a/__init__.py", "a/b.py", "a/c.py"], ["a/__init__.py", "a/b.py"]),
        ("from a import b", ["a/__init__.py", "a/b/__init__.py"], ["a/__init__.py", "a/b/__init__.py"]),
        ("from a import x", ["a.py", "x.py"], ["a.py"]),
        ("from a import *", ["a.py"], ["a.py"]),
        ("import a", ["a.py", "a/__init__.py"], ["a/__init__.py"]),
        ("import a", ["a.py", "a/b.py"], ["a.py"]),
        ("def f():\n try:\n  import a\n except ImportError:\n  a = None", ["a.py"], ["a.py"]),
        ("if False:\n import a", ["a.py"], ["a.py"]),
        ("from . import a", ["a.py"], []),
        ("try:\n from .a import x\nexcept ImportError:\n from a import x", ["a.py"], ["a.py"]),
        ("import importlib\nimportlib.import_module('a.b')", ["a/__init__.py", "a/b.py"], ["a/__init__.py", "a/b.py"]),
        ("from importlib import import_module as load\nload(name='a')", ["a.py"], ["a.py"]),
        ("__import__('a')", ["a.py"], ["a.py"]),
        ("import_module('.b', 'a')", ["a/__init__.py", "a/b.py"], ["a/__init__.py", "a/b.py"]),
        ("import_module('.b', package='a')", ["a/b.py"], ["a/b.py"]),
        ("import_module('/etc/a')\nimport_module('x/../a')", ["a.py", "x/b.py"], []),
        ("import_module('a..b')\nimport_module('a\\0')", ["a.py"], []),
        ("import policy", [], []),
    ],
)  # fmt: skip
def test_a_bundle_has_the_files_that_policy_imports(tmp_path, policy, others, reached):
    source_bundle = bundle(tmp_path, {"policy.py": policy, **dict.fromkeys(others, "")})
    assert [file.path for file in source_bundle.files] == sorted([*reached, "policy.py"])


def test_relative_imports_count_from_their_package(tmp_path):
    files = {
        "policy.py": "import a.b.c",
        "a/__init__.py": "from . import top",
        "a/top.py": "",
        "a/b/__init__.py": "from .near import x",
        "a/b/near.py": "from .. import up",
        "a/up.py": "from ...beyond import x\nfrom importlib import import_module\nimport_module('.late', __package__)",
        "a/late.py": "",
        "a/b/c.py": "from ..b import sibling",
        "a/b/sibling.py": "",
        "beyond.py": "",
        "near.py": "",
    }
    reached = {file.path for file in bundle(tmp_path, files).files}
    assert set(files) - reached == {"beyond.py", "near.py"}


def test_circular_imports_are_followed_once(tmp_path):
    files = {"policy.py": "import a", "a.py": "import b", "b.py": "import a, policy"}
    assert len(bundle(tmp_path, files).files) == 3


def test_what_is_known_only_at_run_time_is_listed(tmp_path):
    policy = """
import importlib.util as u, runpy
def f(name):
    __import__(name)
    importlib.import_module(f"a.{name}")
u.spec_from_file_location("a", "a.py")
runpy.run_path("a.py")
import_module(".a", name)
"""
    source_bundle = bundle(tmp_path, {"policy.py": policy, "a.py": ""})
    assert source_bundle.unresolved == (
        "policy.py:4: __import__",
        "policy.py:5: import_module",
        "policy.py:6: spec_from_file_location",
        "policy.py:7: run_path",
        "policy.py:8: import_module",
    )
    assert [file.path for file in source_bundle.files] == ["policy.py"]


def test_a_file_that_does_not_parse_is_data(tmp_path):
    source_bundle = bundle(
        tmp_path, {"policy.py": "import a, b", "a.py": "def (:\n\n  x", "b.py": "import c", "c.py": ""}
    )
    broken = next(file for file in source_bundle.files if file.path == "a.py")
    assert broken.tree is None
    assert "SyntaxError" in broken.error
    assert broken.lines == 2
    assert {file.path for file in source_bundle.files} == {"policy.py", "a.py", "b.py", "c.py"}


def test_links_and_pipes_are_not_followed(tmp_path):
    secret = tmp_path / "secret.py"
    secret.write_text("SECRET = 1")
    folder = tmp_path / "policy"
    folder.mkdir()
    (folder / "policy.py").write_text("import a, b")
    (folder / "a.py").symlink_to(secret)
    os.mkfifo(folder / "b.py")
    assert [file.path for file in read_bundle(folder).files] == ["policy.py"]


def test_without_a_policy_there_is_no_bundle(tmp_path):
    assert bundle(tmp_path, {"other.py": ""}).files == ()
