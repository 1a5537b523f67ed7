"""Case lists: the paper's to the number, sealed ones that only the key can list."""

from __future__ import annotations

import hashlib
import os
import stat

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evopolicygym.errors import UserError
from evopolicygym.tasks.sealing import create_key, load_key
from evopolicygym.tasks.splits import (
    SIZES,
    PaperSplits,
    SealedSplits,
    Split,
    cases,
    evaluation_salt,
    parse_indices,
    parse_salt,
)

TASK = "core16/acrobot"


def seeds(splits, task=TASK):
    return {split: [splits.seed(task, split, index) for index in range(size)] for split, size in SIZES.items()}


def test_the_papers_seeds():
    listed = seeds(PaperSplits())
    assert listed[Split.TRAIN][0] == 1654615998
    assert listed[Split.VALIDATION][0] == 1106378843
    assert listed[Split.HELDOUT][0] == 47113601
    assert seeds(PaperSplits(), "another") == listed


@pytest.mark.parametrize("splits", [PaperSplits(), SealedSplits(b"k" * 32)], ids=["paper", "sealed"])
def test_splits_are_disjoint(splits):
    everything = [seed for listed in seeds(splits).values() for seed in listed]
    assert len(set(everything)) == sum(SIZES.values())


def test_sealed_seeds_depend_on_key_task_and_split_alone():
    sealed = seeds(SealedSplits(b"k" * 32))
    assert sealed == seeds(SealedSplits(b"k" * 32))
    assert not set(sealed[Split.TRAIN]) & set(seeds(SealedSplits(b"l" * 32))[Split.TRAIN])
    assert not set(sealed[Split.TRAIN]) & set(seeds(SealedSplits(b"k" * 32), "core16/ant")[Split.TRAIN])
    assert max(sealed[Split.TRAIN]) > 2**60


def test_the_name_of_sealed_splits_is_a_commitment_and_not_the_key():
    splits = SealedSplits(bytes(range(32)))
    assert splits.id.startswith("sealed:")
    assert len(splits.id) == len("sealed:") + 64
    assert splits.key.hex() not in splits.id
    assert splits.id != SealedSplits(bytes(32)).id


def test_randomness_keys_differ_by_case_and_do_not_show_the_seed():
    listed = cases(PaperSplits(), TASK, Split.TRAIN, list(range(50)))
    keys = {case.randomness_key() for case in listed}
    assert len(keys) == 50
    assert all(case.seed.to_bytes(8, "little") not in case.randomness_key() for case in listed)


def test_a_salt_makes_other_keys_and_none_the_published_ones():
    (plain,), (salted,), (other,) = (cases(PaperSplits(), TASK, Split.TRAIN, [0], salt) for salt in ("", "a", "b"))
    digest = hashlib.sha256(f"evopolicygym policy randomness|{TASK}|{plain.seed}".encode()).digest()
    assert plain.randomness_key() == digest
    assert len({digest, salted.randomness_key(), other.randomness_key()}) == 3


def test_the_salt_of_an_evaluation_depends_on_key_and_checkpoint():
    salts = {evaluation_salt(key, checkpoint) for key in (b"k" * 32, b"l" * 32) for checkpoint in ("one", "two")}
    assert len(salts) == 4 and all(parse_salt(salt) == salt for salt in salts)


@given(st.lists(st.integers(0, 63), min_size=1, max_size=20))
def test_indices_keep_order_and_repeats(indices):
    assert parse_indices(",".join(map(str, indices)), 64) == indices


@pytest.mark.parametrize(("text", "expanded"), [("0-3,7", [0, 1, 2, 3, 7]), ("5,5, 1-2", [5, 5, 1, 2])])
def test_ranges(text, expanded):
    assert parse_indices(text, 64) == expanded


@pytest.mark.parametrize("text", ["", "a", "1-", "-1", "3-1", "64", "0-30000000000", "1;2", "1.5", "²"])
def test_bad_indices_are_named(text):
    with pytest.raises(UserError):
        parse_indices(text, 64)


def test_a_case_out_of_range_is_named():
    with pytest.raises(UserError, match="case 64 is out of range: validation has cases 0 to 63"):
        cases(PaperSplits(), TASK, Split.VALIDATION, [1, 64])


@pytest.fixture
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.delenv("EVOPOLICYGYM_SEAL_KEY", raising=False)
    monkeypatch.delenv("EVOPOLICYGYM_SEAL_KEY_FILE", raising=False)
    return tmp_path / "evopolicygym" / "seal.key"


def test_the_key_is_made_once_and_is_the_owners_alone(home):
    key = load_key()
    assert len(key) == 32
    assert stat.S_IMODE(home.stat().st_mode) == 0o600
    assert load_key() == key


def test_a_key_is_never_overwritten(home):
    load_key()
    with pytest.raises(UserError, match="never overwritten"):
        create_key(home)


def test_a_key_that_others_can_read_is_refused(home):
    load_key()
    os.chmod(home, 0o644)
    with pytest.raises(UserError, match="chmod 600"):
        load_key()


@pytest.mark.parametrize("text", ["", "abcd", "zz" * 32])
def test_an_invalid_key_is_refused(home, monkeypatch, text):
    home.parent.mkdir()
    home.write_text(text)
    home.chmod(0o600)
    with pytest.raises(UserError, match="hexadecimal"):
        load_key()


def test_the_key_can_come_from_the_environment(home, monkeypatch):
    monkeypatch.setenv("EVOPOLICYGYM_SEAL_KEY", "ab" * 32)
    assert load_key() == b"\xab" * 32
    assert not home.exists()
