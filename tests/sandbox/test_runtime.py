"""The paths that a policy may read: all that it needs, without simulators."""

from __future__ import annotations

import os
from pathlib import Path

from evopolicygym.sandbox.runtime import cover, holes_of, runtime


def test_a_cover_leaves_out_the_holes_and_nothing_else(tmp_path):
    for name in ("lib/python/site-packages/secret", "lib/python/json", "lib/other", "lib/python/lib-dynload"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "lib/python/os.py").touch()
    (tmp_path / "lib/link").symlink_to("python/site-packages")
    root = str(tmp_path / "lib")
    (hole,) = holes_of([root])
    covered = {str(Path(path).relative_to(tmp_path)) for path in cover(root, (hole,))}
    assert covered == {"lib/other", "lib/python/json", "lib/python/lib-dynload", "lib/python/os.py"}
    assert cover(root, ()) == [root]


def test_no_path_a_policy_may_read_leads_to_the_simulators():
    own = runtime()
    readable = own.readable()
    for module in ("gymnasium", "mujoco", "minigrid", "highway_env", "pygame", "evopolicygym", "pip"):
        location = os.path.join(own.site, module)
        assert not any(location == path or location.startswith(path + "/") for path in readable), module
    assert not any(own.package_root == path or own.package_root.startswith(path + "/") for path in readable)


def test_all_paths_are_real_and_there():
    for path in runtime().readable():
        assert os.path.realpath(path) == path
        assert os.path.exists(path)
