"""Recordings can be read with json, numpy and any video player, and do not change the episode."""

from __future__ import annotations

import errno
import json
import os
from dataclasses import replace
from itertools import accumulate

import av
import numpy as np
import pytest

from conftest import PolicyPlayer, one_of_each_kind, policy_source, toy_task, train_cases
from evopolicygym.execution.conformance import probe_folder
from evopolicygym.execution.engine import LocalEngine
from evopolicygym.execution.recording import TrajectoryRecorder, large_arrays, shortest
from evopolicygym.execution.records import Episode, EpisodeResult, FaultReport, Recording
from evopolicygym.execution.step_info import InfoFilter
from evopolicygym.files import link_unnamed, open_unnamed
from evopolicygym.tasks import simulator
from evopolicygym.tasks.conditions import TaskView, TextLevel
from evopolicygym.tasks.registry import core16

STEPS = 12


def test_a_trajectory_is_exact_and_complete(policy_player, tmp_path):
    result = policy_player().play(policy_source(act="return 2"), Recording(str(tmp_path)))
    lines = [json.loads(line) for line in (tmp_path / "trajectory.jsonl").read_text().splitlines()]
    assert [line["t"] for line in lines] == list(range(11))
    assert lines[0]["action"] == 2
    assert "terminated" not in lines[8] and (lines[9]["terminated"], lines[9]["truncated"]) == (True, False)
    assert lines[10] == {"t": 10, "obs": [10.0, lines[0]["obs"][1]]}
    assert sorted(path.name for path in tmp_path.iterdir()) == ["episode.npz", "trajectory.jsonl"]
    with np.load(tmp_path / "episode.npz", allow_pickle=False) as episode:
        assert [*accumulate(episode["reward"].tolist())][-1] == result.score
        assert episode["obs"].shape == (11, 2) and episode["action"].tolist() == [2] * 10
        assert bool(episode["terminated"]) and not episode["truncated"]
        shown = [np.float32(line["reward"]) for line in lines[:-1]]
        assert shown == episode["reward"].astype(np.float32).tolist()


def test_floats_are_as_short_as_a_float32_allows():
    values = np.random.default_rng(0).integers(0, 2**32, 5000, dtype=np.uint32).view(np.float32)
    values = values[np.isfinite(values)]
    short = shortest(values)
    assert (np.array(short, np.float32) == values).all()
    usual = np.random.default_rng(0).normal(size=(50, 20)).astype(np.float32)
    assert [repr(number) for row in shortest(usual) for number in row] == [repr(float(str(x))) for x in usual.flat]
    odd = shortest(np.array([0.1, 1 / 3, -0.0, np.inf, 1e300, 1e-40]))
    assert [str(number) for number in odd] == ["0.1", "0.33333334", "-0.0", "inf", "1e+300", "1e-40"]


def test_a_long_episode_is_recorded_in_blocks(tmp_path):
    """Also columns of ``info`` that begin late, have gaps, or change their shape."""
    box = {"type": "Box", "shape": [2], "dtype": "float64"}
    with TrajectoryRecorder(tmp_path, box, {"type": "Discrete", "n": 200}, 1 << 20, seed=12345) as recorder:
        for t in range(150):
            info = {"always": t, "late": [t, t + 0.5]} if t >= 100 else {"always": t}
            info |= {"late": 7.0} if t == 120 else {}
            recorder.step(t, [t, -t], t, t / 3, False, t == 149, {} if t == 10 else info)
        recorder.last(150, [150, -150])
    with np.load(tmp_path / "episode.npz", allow_pickle=False) as episode:
        assert (episode["obs"][:, 0] == np.arange(151)).all() and (episode["action"] == np.arange(150)).all()
        assert episode["reward"].tolist() == [t / 3 for t in range(150)]
        assert np.flatnonzero(np.isnan(episode["info_always"])).tolist() == [10]
        late = episode["info_late"]
        assert late.shape == (150, 2) and late[149].tolist() == [149, 149.5]
        assert np.flatnonzero(np.isnan(late[:, 0])).tolist() == [*range(100), 120]
    lines = [json.loads(line) for line in (tmp_path / "trajectory.jsonl").read_text().splitlines()]
    assert [line["t"] for line in lines] == list(range(151)) and lines[149]["truncated"] is True
    assert [line["t"] for line in lines if "info" in line] == [0, 149]
    assert lines[149]["info"] == {"always": 149, "late": [149, 149.5]}


SEED = 2**62 + 987654321


@pytest.mark.parametrize(
    "told",
    [
        *(SEED, SEED + 1, float(SEED), np.int64(SEED), np.array(SEED), [1, SEED], SEED % 2**32, SEED >> 32, str(SEED)),
        *(np.float32(SEED), {"inner": SEED}, {"inner": {"deep": SEED}}, object(), list(range(17)), "text", None),
    ],
)
def test_info_tells_no_seed_and_no_text(told):
    shown = InfoFilter(SEED).numbers({"place": told, "x": 1.5, "done": True})
    assert shown == {"x": 1.5, "done": 1.0}


@pytest.mark.parametrize(
    "name", ["seed", "np_random", "rngState", "episode_seed", "_private", "options.seed", "case", "x" * 61]
)
def test_info_with_a_hidden_name_is_left_out(name):
    assert InfoFilter(SEED).numbers({name: 3.5, "speed": 2.0, "rewards": {"on_road": 1.0}}) == {
        "speed": 2.0,
        "rewards.on_road": 1.0,
    }


@pytest.mark.parametrize("text", [TextLevel.BRIEF, TextLevel.BLIND])
def test_info_is_recorded_without_what_tells_the_seed(tmp_path, text):
    """At the blind text it is left out."""
    task = toy_task("Telling-v0").seen(TaskView(text))
    policy_player = PolicyPlayer(task, tmp_path)
    policy_player.play(policy_source(), Recording(str(tmp_path)))
    policy_player.engine.close()
    with np.load(tmp_path / "episode.npz", allow_pickle=False) as episode:
        shown = {name: episode[name].tolist() for name in episode.files if name.startswith("info_")}
    first = json.loads((tmp_path / "trajectory.jsonl").read_text().splitlines()[0])
    if text is TextLevel.BLIND:
        assert shown == {} and "info" not in first
        return
    assert set(shown) == {"info_x_position", "info_rewards_forward", "info_is_success"}
    assert shown["info_x_position"] == [0.5 * step for step in range(1, 11)]
    assert first["info"] == {"x_position": 0.5, "rewards.forward": 1.0, "is_success": 0.0}


def test_large_observations_go_to_an_archive(policy_player, tmp_path):
    act = 'return {"gear": 0, "wheel": [0, 0], "switches": [0, 0, 0], "levels": [1, 2], "pair": (0, [0, 0])}'
    policy_player(toy_task("Everything-v0")).play(policy_source(act=act), Recording(str(tmp_path)))
    with np.load(tmp_path / "episode.npz", allow_pickle=False) as archive:
        assert archive["obs_image"].shape == (11, 12, 9, 3)
        assert (archive["obs_image"][7] == 7).all()
        assert archive["obs_word"].tolist()[:2] == ["step ", "step é"]
        assert archive["action_pair_1"].shape == (10, 2)
    line = json.loads((tmp_path / "trajectory.jsonl").read_text().splitlines()[7])
    assert line["obs"]["image"] == {"npz": "obs_image", "row": 7}
    assert line["obs"]["word"] == "step "


def test_large_arrays_are_found_at_every_depth_whatever_their_keys(policy_player, tmp_path):
    nested = policy_player(toy_task("Nested-v0"))
    nested.play(policy_source(), Recording(str(tmp_path)))
    lines = [json.loads(line) for line in (tmp_path / "trajectory.jsonl").read_text().splitlines()]
    with np.load(tmp_path / "episode.npz", allow_pickle=False) as archive:
        large = {name for name, _ in large_arrays(nested.engine.obs_space)}
        assert large == {"obs_a_b", "obs_a_b_2", "obs_______up", "obs_deep_7_1"} and large < set(archive)
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
    assert sorted(path.name for path in tmp_path.iterdir()) == ["episode.npz", "trajectory.jsonl"]


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


@pytest.mark.parametrize("slug", one_of_each_kind())
def test_a_video_of_every_task_can_be_recorded_without_changing_it(slug, tmp_path):
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
def test_no_video_of_an_environment_without_frames_can_be_recorded(tmp_path, toy):
    policy_player = PolicyPlayer(toy_task(toy), tmp_path, video=True)
    (outcome,) = policy_player.outcomes(policy_source(), 1, Recording(str(tmp_path / "film"), video=True))
    policy_player.engine.close()
    assert isinstance(outcome, FaultReport)
    assert f"{toy} cannot be recorded as video: its render() returns nothing" in outcome.text
    assert "Record it without video" in outcome.text
    assert not (tmp_path / "film" / "video.mp4").exists()
