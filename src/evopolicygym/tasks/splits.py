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
    """One reset of a task. ``salt`` is a secret, for example of a run; without one the policy's randomness follows from
    public facts."""

    task: str
    split: Split
    index: int
    seed: int
    salt: str = ""

    def randomness_key(self) -> bytes:
        """Return the key of the policy's random stream, which differs from case to case.

        A policy can read the key. With a salt the key reveals nothing about the case. Without one, a policy that knows
        the list of seeds (the paper's is public) can find its own by trying them all."""
        facts = f"evopolicygym policy randomness|{self.task}|{self.seed}".encode()
        if not self.salt:
            return hashlib.sha256(facts).digest()
        return hmac.new(self.salt.encode(), facts, hashlib.sha256).digest()


class Splits(Protocol):
    """A way to derive the seeds of cases, named by ``id``."""

    @property
    def id(self) -> str: ...

    def seed(self, task: str, split: Split, index: int) -> int: ...


@dataclass(frozen=True)
class PaperSplits:
    """The public seeds of the paper, the same for all tasks: for replication, not for competition."""

    id: str = "paper"

    def seed(self, task: str, split: Split, index: int) -> int:
        return _paper_seeds()[split][index]


@dataclass(frozen=True)
class SealedSplits:
    """Seeds derived from a secret key by HMAC-SHA256. The key's hash names the splits; listing them needs the key.

    Seeds have 63 bits: too many for a policy to find its own by comparing first observations."""

    key: bytes

    @property
    def id(self) -> str:
        return f"sealed:{commitment(self.key)}"

    def seed(self, task: str, split: Split, index: int) -> int:
        digest = hmac.new(self.key, f"evopolicygym case|{task}|{split}|{index}".encode(), hashlib.sha256).digest()
        return int.from_bytes(digest[:8], "big") >> 1


def commitment(key: bytes) -> str:
    """Return the hash that names a key without revealing it."""
    return hashlib.sha256(b"evopolicygym sealing key|" + key).hexdigest()


def new_salt() -> str:
    return secrets.token_hex(SALT_DIGITS // 2)


def evaluation_salt(key: bytes, checkpoint: str) -> str:
    """Return the salt of a checkpoint that is evaluated outside any run.

    It is the same each time, and the checkpoint cannot contain it, because its own content is hashed into it."""
    return hmac.new(key, f"evaluate|{checkpoint}".encode(), hashlib.sha256).hexdigest()


def parse_salt(text: str) -> str:
    """Return ``text`` as a salt: 64 hexadecimal digits, in lower case."""
    salt = text.strip().lower()
    if not re.fullmatch(SALT, salt):
        raise UserError(
            f"a salt has {SALT_DIGITS} hexadecimal digits (got: {text[:SALT_DIGITS]!r})",
            "Copy randomness_salt from run.json, or from the output of `evaluate --json`.",
        )
    return salt


def cases(splits: Splits, task: str, split: Split, indices: list[int], salt: str = "") -> list[Case]:
    """Return the cases of some indices, in the given order, with repeats."""
    size = SIZES[split]
    if outside := [index for index in indices if not 0 <= index < size]:
        raise UserError(f"case {outside[0]} is out of range: {split} has cases 0 to {size - 1}")
    return [Case(task, split, index, splits.seed(task, split, index), salt) for index in indices]


def parse_indices(text: str, size: int, most: int | None = None) -> list[int]:
    """Parse a list such as ``0-3,7``; order and repeats are kept. Bounds are checked before a range is expanded; more
    than ``most`` indices raise OverflowError."""
    indices: list[int] = []
    for part in text.split(","):
        first, dash, last = (text.strip() for text in part.partition("-"))
        if not first.isdecimal() or (dash and not last.isdecimal()) or len(part) > LONGEST_RANGE:
            shown = part.strip()[:LONGEST_RANGE]
            raise UserError(f"{shown!r} is not a case: write indices and ranges, such as 0-7,12")
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
    """Return distinct draws from one generator, assigned to the splits in order."""
    generator = random.Random(0)
    distinct: dict[int, None] = {}
    while len(distinct) < sum(SIZES.values()):
        distinct.setdefault(generator.randrange(2**31))
    draws = iter(distinct)
    return {split: tuple(islice(draws, size)) for split, size in SIZES.items()}
