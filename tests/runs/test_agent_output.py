"""The output of an agent: real processes write to real pipes; keys are removed, and what is kept is bounded."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from evopolicygym.runs.agent.output import Redactor, StreamCopy, Transcript, open_plain
from process_helpers import wait_until

KEYS = {"KEY": "secret-key", "LONGER": "secret-key-2", "OTHER": "key-2-of-mine", "SHORT": "word", "BYTES": "\udcff" * 8}


def writer(copy: StreamCopy, code: str) -> subprocess.Popen[bytes]:
    process = subprocess.Popen([sys.executable, "-c", code], stdout=copy.pipe.agent_end)
    copy.pipe.close_agent_end()
    return process


@pytest.mark.parametrize(
    ("said", "kept"),
    [
        (b"a secret-key b", b"a [KEY] b"),
        (b"secret-key-2secret-key", b"[LONGER][KEY]"),
        (b"secret-secret-key-", b"secret-[KEY]-"),
        (b"secret-key-2-of-mine", b"[LONGER]-of-mine"),
        (b"word\n" + b"\xff" * 9, b"word\n[BYTES]\xff"),
        (b"secret-ke", b"secret-ke"),
    ],
)
def test_an_api_key_is_redacted_wherever_the_stream_is_cut(said, kept):
    for first in range(len(said) + 1):
        for second in range(first, len(said) + 1):
            redactor = Redactor(KEYS)
            parts = [redactor.feed(said[:first]), redactor.feed(said[first:second]), redactor.feed(said[second:])]
            assert b"".join(parts) + redactor.rest() == kept
    assert Redactor({}).feed(said) == said


def test_output_that_cannot_begin_a_key_is_written_at_once(tmp_path):
    """After a kill the beginning of the turn is on disk: it names the session."""
    path = tmp_path / "out"
    with StreamCopy(path, KEYS, 1000) as copy:
        process = writer(copy, "import sys; print('session 7, no line yet', end='', flush=True); sys.stdin.read()")
        assert wait_until(lambda: path.read_bytes() == b"session 7, no line yet")
        process.kill()
        process.wait()


def test_a_flood_of_output_is_read_but_not_kept(tmp_path):
    path, most, size = tmp_path / "out", 1 << 16, 3 << 20
    with StreamCopy(path, {}, most) as copy:
        assert writer(copy, f"import sys; sys.stdout.write('x' * {size})").wait() == 0, "it was not kept waiting"
    assert copy.bytes_read == size
    kept = path.read_bytes()
    assert kept.startswith(b"x" * most) and len(kept) < most + 200
    assert f"{size - most} bytes were left out".encode() in kept


def test_an_agent_cannot_change_its_transcript(tmp_path):
    """The control: it can change a file of its own."""
    spoil = "import os\nos.write(1, b'hello')\ntry: os.ftruncate(1, 1 << 43)\nexcept OSError as error: pass\n" \
        "os.fchmod(1, 0)"  # fmt: skip
    with StreamCopy(tmp_path / "out", {}, 1000) as copy:
        writer(copy, spoil).wait()
    assert (tmp_path / "out").read_bytes() == b"hello" and os.stat(tmp_path / "out").st_mode & 0o400
    with open(tmp_path / "own", "wb") as own:
        subprocess.run([sys.executable, "-c", spoil], stdout=own)
    assert os.stat(tmp_path / "own").st_size == 1 << 43 and not os.stat(tmp_path / "own").st_mode & 0o400


def test_a_process_that_keeps_the_pipe_open_delays_nothing(tmp_path):
    copy = StreamCopy(tmp_path / "out", {}, 1000)
    process = writer(copy, "import sys, time; print('last words', flush=True); time.sleep(600)")
    assert wait_until(lambda: copy.bytes_read > 0)
    copy.close()
    assert process.poll() is None and (tmp_path / "out").read_bytes() == b"last words\n"
    process.kill()
    process.wait()


def test_the_bound_includes_earlier_turns(tmp_path):
    for _ in range(2):
        transcript = Transcript(tmp_path / "out", KEYS, 30, append=True)
        transcript.write(b"x" * 20)
        transcript.close()
    assert (tmp_path / "out").read_bytes().startswith(b"x" * 30 + b"\n[evopolicygym: 10 bytes")


@pytest.mark.parametrize("kind", ["link", "pipe", "folder", "full"])
def test_a_transcript_must_be_a_plain_file(kind, tmp_path):
    path, target = tmp_path / "out", tmp_path / "target"
    target.write_bytes(b"mine")
    {"link": lambda: path.symlink_to(target), "pipe": lambda: os.mkfifo(path), "folder": path.mkdir,
     "full": lambda: path.symlink_to("/dev/full")}[kind]()  # fmt: skip
    transcript = Transcript(path, {}, 1000)
    transcript.write(b"hello")
    transcript.close()
    with open_plain(path) as file:
        assert file.read() == b""
    assert target.read_bytes() == b"mine" and transcript.left_out == 5
