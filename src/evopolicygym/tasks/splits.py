"""Cases and splits: which resets of a task are train, validation and held-out."""

from __future__ import annotations

import hashlib
import hmac
import random
import re
import secrets
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from itertools import islice
from typing import Final, Protocol

from evopolicygym.errors import UserError


class Split(StrEnum):
    TRAIN = "train"
    VALIDATION = "validation"
    HELDOUT = "heldout"


LONGEST_RANGE: Final = 40  # characters; longer numbers are no indices
SALT_DIGITS: Final = 64
SALT: Final = f"[0-9a-f]{{{SALT_DIGITS}}}"
SIZES: Final = {Split.TRAIN: 1024, Split.VALIDATION: 64, Split.HELDOUT: 256}
DEFAULT_CASES: Final = {Split.TRAIN: "0-7", Split.VALIDATION: "0-15", Split.HELDOUT: "0-31"}  # of `evaluate`


@dataclass(frozen=True)
class Case:
    """One reset of a task. ``salt`` is a secret of whoever plays it, such as a run; without one the policy's randomness
    follows from public facts."""

    task: str
    split: Split
    index: int
    seed: int
    salt: str = ""

    def randomness_key(self) -> bytes:
        """Return the key of the policy's random stream, which differs from case to case.

        A policy can read it. With a salt it says nothing about the case; without one a policy that knows the list of
        seeds, as everybody knows the paper's, finds its own by trying them all."""
        facts = f"evopolicygym policy randomness|{self.task}|{self.seed}".encode()
        if not self.salt:
            return hashlib.sha256(facts).digest()
        return hmac.new(self.salt.encode(), facts, hashlib.sha256).digest()


class Splits(Protocol):
    """A way to derive case lists, named by ``id``."""

    @property
    def id(self) -> str: ...

    def seed(self, task: str, split: Split, index: int) -> int: ...


@dataclass(frozen=True)
class PaperSplits:
    """The public list of the paper: the same for all tasks. It serves replication, not a contest."""

    id: str = "paper"

    def seed(self, task: str, split: Split, index: int) -> int:
        return _paper_seeds()[split][index]


@dataclass(frozen=True)
class SealedSplits:
    """Seeds by HMAC-SHA256 from a secret key. The key's hash names the splits; without the key nobody can list them.

    63 bits: too many for a policy to find its seed by trying them all against its first observation."""

    key: bytes

    @property
    def id(self) -> str:
        return f"sealed:{commitment(self.key)}"

    def seed(self, task: str, split: Split, index: int) -> int:
        digest = hmac.new(self.key, f"evopolicygym case|{task}|{split}|{index}".encode(), hashlib.sha256).digest()
        return int.from_bytes(digest[:8], "big") >> 1


def commitment(key: bytes) -> str:
    return hashlib.sha256(b"evopolicygym sealing key|" + key).hexdigest()


def new_salt() -> str:
    return secrets.token_hex(SALT_DIGITS // 2)


def evaluation_salt(key: bytes, checkpoint: str) -> str:
    """Return the salt of a checkpoint that is evaluated outside any run: the same each time, and nothing that a policy
    could hold, because its own content goes into it."""
    return hmac.new(key, f"evaluate|{checkpoint}".encode(), hashlib.sha256).hexdigest()


def parse_salt(text: str) -> str:
    """Return ``text`` as a salt: 64 hexadecimal digits, in lower case."""
    salt = text.strip().lower()
    if not re.fullmatch(SALT, salt):
        raise UserError(
            f"a salt has {SALT_DIGITS} hexadecimal digits, which {text[:SALT_DIGITS]!r} has not",
            "It is randomness_salt in run.json of a run, and in what `evaluate --json` prints.",
        )
    return salt


def cases(splits: Splits, task: str, split: Split, indices: list[int], salt: str = "") -> list[Case]:
    """In the order asked for, repeats kept."""
    size = SIZES[split]
    if outside := [index for index in indices if not 0 <= index < size]:
        raise UserError(f"case {outside[0]} is out of range: {split} has cases 0 to {size - 1}")
    return [Case(task, split, index, splits.seed(task, split, index), salt) for index in indices]


def parse_indices(text: str, size: int, most: int | None = None) -> list[int]:
    """``0-3,7`` to a list; order and repeats are kept. Bounds are checked before a range is expanded. More than
    ``most`` indices raise OverflowError before they are made."""
    indices: list[int] = []
    for part in text.split(","):
        first, dash, last = (text.strip() for text in part.partition("-"))
        if not first.isdecimal() or (dash and not last.isdecimal()) or len(part) > LONGEST_RANGE:
            shown = part.strip()[:LONGEST_RANGE]
            raise UserError(f"cannot read {shown!r} as a case: write indices and ranges, such as 0-7,12")
        low, high = int(first), int(last or first)
        if low > high:
            raise UserError(f"cases {part.strip()} go backwards: write {high}-{low}")
        if high >= size:
            raise UserError(f"cases {part.strip()} are out of range: there are cases 0 to {size - 1}")
        if most is not None and len(indices) + high - low >= most:
            raise OverflowError
        indices.extend(range(low, high + 1))
    return indices


@cache
def _paper_seeds() -> dict[Split, tuple[int, ...]]:
    """Distinct draws from one generator, dealt out in order."""
    generator = random.Random(0)
    distinct: dict[int, None] = {}
    while len(distinct) < sum(SIZES.values()):
        distinct.setdefault(generator.randrange(2**31))
    draws = iter(distinct)
    return {split: tuple(islice(draws, size)) for split, size in SIZES.items()}
