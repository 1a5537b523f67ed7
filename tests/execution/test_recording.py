"""Recordings read back with plain json, numpy and any video player, and change nothing of what is recorded."""

from __future__ import annotations

import errno
import json
import os
from dataclasses import replace
from itertools import accumulate

import av
import numpy as np
import pytest

from conftest import PolicyPlayer, policy_source, toy_task, train_cases
from evopolicygym.execution.conformance import probe_folder
from evopolicygym.execution.engine import LocalEngine
from evopolicygym.execution.recording import large_arrays
from evopolicygym.execution.records import Episode, EpisodeResult, FaultReport, Recording
from evopolicygym.files import link_unnamed, open_unnamed
from evopolicygym.tasks import simulator
from evopolicygym.tasks.registry import CORE16_ORDER, core16

STEPS = 12


def test_a_trajectory_is_exact_and_complete(policy_player, tmp_path):
    result = policy_player().play(policy_source(act="return 2"), Recording(str(tmp_path)))
    lines = [json.loads(line) for line in (tmp_path / "trajectory.jsonl").read_text().splitlines()]
    assert [line["t"] for line in lines] == list(range(11))
    assert [*accumulate(line["reward"] for line in lines[:-1])][-1] == result.score
    assert lines[0]["action"] == 2
    assert lines[9]["terminated"] is True
    assert lines[10] == {"t": 10, "obs": [10.0, lines[0]["obs"][1]]}
    assert sorted(path.name for path in tmp_path.iterdir()) == ["trajectory.jsonl"]


def test_large_observations_go_to_an_archive(policy_player, tmp_path):
    act = 'return {"gear": 0, "wheel": [0, 0], "switches": [0, 0, 0], "levels": [1, 2], "pair": (0, [0, 0])}'
    policy_player(toy_task("Everything-v0")).play(policy_source(act=act), Recording(str(tmp_path)))
    with np.load(tmp_path / "observations.npz", allow_pickle=False) as archive:
        assert archive["image"].shape == (11, 12, 9, 3)
        assert (archive["image"][7] == 7).all()
    line = json.loads((tmp_path / "trajectory.jsonl").read_text().splitlines()[7])
    assert line["obs"]["image"] == {"npz": "image", "row": 7}
    assert line["obs"]["word"] == "step "


def test_large_arrays_are_found_at_every_depth_whatever_their_keys(policy_player, tmp_path):
    nested = policy_player(toy_task("Nested-v0"))
    nested.play(policy_source(), Recording(str(tmp_path)))
    lines = [json.loads(line) for line in (tmp_path / "trajectory.jsonl").read_text().splitlines()]
    with np.load(tmp_path / "observations.npz", allow_pickle=False) as archive:
        assert set(archive) == {name for name, _ in large_arrays(nested.engine.obs_space)}
        assert set(archive) == {"a_b", "a_b_2", "______up", "deep_7_1"}
        for t, seen in enumerate(line["obs"] for line in lines):
            number, deep = seen["deep"]["7"]
            assert number == t
            large = [seen["a/b"], seen["a_b"], seen["../../up"], deep]
            values = [archive[entry["npz"]][entry["row"]] for entry in large]
            assert [set(value.tolist()) for value in values] == [{t}, {t + 20}, {t + 40}, {t + 0.5}]
            assert values[3].dtype == np.float32


def test_numbers_that_json_does_not_have_are_text(policy_player, tmp_path):
    def refuse(token):
        raise ValueError(token)

    policy_player(toy_task("Unmeasured-v0")).play(policy_source(), Recording(str(tmp_path)))
    text = (tmp_path / "trajectory.jsonl").read_text()
    seen = [json.loads(line, parse_constant=refuse)["obs"] for line in text.splitlines()]
    assert len(seen) == 11
    assert seen[:2] == [["nan", "inf"], ["nan", "-inf"]]
    assert np.isnan(np.asarray(seen[0], np.float32)[0])


def test_what_repeats_replaces_what_it_left(policy_player, tmp_path):
    """The judge asks a simulator that raises once more."""
    result = policy_player(toy_task("Raising-v0")).play(policy_source(act="return 2"), Recording(str(tmp_path)))
    assert result.error is not None
    assert [path.name for path in tmp_path.iterdir()] == ["trajectory.jsonl"]


@pytest.mark.parametrize("supported", [True, False])
def test_a_file_has_no_name_until_it_is_given_one(tmp_path, monkeypatch, supported):
    """Also where the file system knows no files without one."""
    opened = os.open

    def refuse(path, flags, *rest, **more):
        if flags & os.O_TMPFILE == os.O_TMPFILE:
            raise OSError(errno.EOPNOTSUPP, os.strerror(errno.EOPNOTSUPP))
        return opened(path, flags, *rest, **more)

    if not supported:
        monkeypatch.setattr(os, "open", refuse)
    path = tmp_path / "whole"
    for content in (b"first", b"second"):
        with open_unnamed(tmp_path) as file:
            file.write(content)
            assert [other.name for other in tmp_path.iterdir()] == ([] if content == b"first" else ["whole"])
            link_unnamed(file, path)
        assert path.read_bytes() == content
        assert [other.name for other in tmp_path.iterdir()] == ["whole"]
        beside = tmp_path / "beside"
        beside.touch()
        assert path.stat().st_mode == beside.stat().st_mode and path.stat().st_nlink == 1
        beside.unlink()


def test_a_failed_episode_is_recorded_up_to_its_failure(policy_player, tmp_path):
    source = policy_source(act="if obs[0] == 4: raise ValueError\nreturn 1")
    policy_player().play(source, Recording(str(tmp_path)))
    assert len((tmp_path / "trajectory.jsonl").read_text().splitlines()) == 5


def frames(path):
    with av.open(str(path)) as container:
        assert container.streams.video[0].codec_context.name == "h264"
        return [frame.to_ndarray(format="rgb24") for frame in container.decode(video=0)]


@pytest.mark.parametrize("slug", CORE16_ORDER)
def test_every_task_can_be_filmed_without_changing_it(slug, tmp_path):
    task = replace(core16()[f"core16/{slug}"], horizon=STEPS)
    if "mujoco" in task.requires and simulator.opengl() is None:
        pytest.skip("no headless OpenGL, so that MuJoCo cannot draw")
    (case,) = train_cases(task, 1)
    results = []
    for video in (False, True):
        with LocalEngine(task, 1, video=video) as engine:
            checkpoint = engine.store.snapshot(probe_folder(tmp_path, "random"))
            recording = Recording(str(tmp_path / "film"), video=True) if video else None
            results += list(engine.run([Episode(0, checkpoint, case, recording)]))
    unseen, filmed = results
    assert isinstance(unseen, EpisodeResult) and isinstance(filmed, EpisodeResult)
    assert unseen.score.hex() == filmed.score.hex()
    shown = frames(tmp_path / "film" / "video.mp4")
    assert len(shown) == filmed.length
    assert all(frame.std() > 1 for frame in shown)


def test_odd_sizes_are_cut_to_even_ones(tmp_path):
    policy_player = PolicyPlayer(toy_task(), tmp_path, video=True)
    policy_player.play(policy_source(), Recording(str(tmp_path / "film"), video=True))
    policy_player.engine.close()
    shown = frames(tmp_path / "film" / "video.mp4")
    assert shown[0].shape == (32, 46, 3)
    assert len(shown) == 10


def test_a_video_that_is_cut_short_can_be_played(tmp_path):
    policy_player = PolicyPlayer(toy_task("Vast-v0", horizon=80), tmp_path, video=True)
    result = policy_player.play(policy_source(), Recording(str(tmp_path / "film"), video=True, max_bytes=3 << 20))
    policy_player.engine.close()
    assert [what.split()[1] for what in result.left_out] == ["trajectory", "video"]
    assert 1 <= len(frames(tmp_path / "film" / "video.mp4")) < result.length == 80
    assert (tmp_path / "film" / "video.mp4").stat().st_size < 5 << 20


@pytest.mark.parametrize("toy", ["Blank-v0", "Unwritten-v0"])
def test_what_draws_nothing_cannot_be_filmed_and_says_so(tmp_path, toy):
    policy_player = PolicyPlayer(toy_task(toy), tmp_path, video=True)
    (outcome,) = policy_player.outcomes(policy_source(), 1, Recording(str(tmp_path / "film"), video=True))
    policy_player.engine.close()
    assert isinstance(outcome, FaultReport)
    assert f"{toy} cannot be filmed: its render() returns nothing" in outcome.text
    assert "Record it without video" in outcome.text
    assert not (tmp_path / "film" / "video.mp4").exists()
