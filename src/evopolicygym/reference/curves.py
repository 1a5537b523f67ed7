"""Records of learning curves: what a learner with direct access to the simulator scores after so many episodes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Final, Literal

from pydantic import ValidationError

from evopolicygym.errors import UserError
from evopolicygym.files import list_files, read_file
from evopolicygym.printable import one_line
from evopolicygym.record_types import Cases, Count, Hash, RecordModel, Return, Seconds, ShortText, Undeclared

VERSION: Final = 1
KIND: Final = "learning-curve"
SUFFIX: Final = ".curve.json"
FOLDER: Final = "curves"
MAX_BYTES: Final = 16 << 20
MAX_TOTAL_BYTES: Final = 256 << 20  # they are in memory together
MAX_FILES: Final = 10_000  # of any kind
MAX_DEPTH: Final = 16
MAX_SHOWN: Final = 200  # characters of a key in a message


class MeasuredPoint(RecordModel):
    """One measured checkpoint: the episodes and steps that it was trained on, the seconds that training had taken, and
    the mean returns on the hidden cases."""

    episodes: Count
    steps: Count
    train_s: Seconds
    checkpoint: Hash
    validation_mean: Return
    heldout_mean: Return


class CurveRecord(RecordModel):
    """One training. ``settings``: of the learner. ``steps``: how many it was to be trained for; ``complete``: whether
    it was. ``fingerprint``: what can change a score; ``machine``: what can change its last bits. ``versions``: packages
    of the learner."""

    kind: Literal["learning-curve"]
    schema_version: Literal[1]
    evopolicygym: ShortText
    task: ShortText
    algorithm: ShortText
    settings: Undeclared
    seed: Count
    steps: Count
    complete: bool
    splits_id: ShortText
    comparable_id: ShortText
    bit_id: ShortText
    fingerprint: Undeclared
    machine: Undeclared
    implementation: ShortText
    isolation: ShortText
    validation_cases: Cases
    heldout_cases: Cases
    versions: dict[str, str]
    command: str
    points: list[MeasuredPoint]

    def selected(self) -> Iterator[tuple[MeasuredPoint, float]]:
        """Yield each point with the score of a learner that stops there: the held-out mean of the checkpoint with the
        best validation mean so far, the later one of equals, as a run selects."""
        best: MeasuredPoint | None = None
        for point in self.points:
            if best is None or point.validation_mean >= best.validation_mean:
                best = point
            yield point, best.heldout_mean

    @property
    def score(self) -> float | None:
        """The score at the end; None before the first point."""
        return [score for _, score in self.selected()][-1] if self.points else None


def load_curve(path: Path) -> CurveRecord:
    """Read one record. Raises UserError where it is none."""
    try:
        return CurveRecord.model_validate_json(read_file(path.parent, path.name, MAX_BYTES))
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror}", "Name a file *.curve.json.") from error
    except ValidationError as error:
        first = error.errors(include_input=False, include_url=False)[0]
        where = one_line(".".join(str(part) for part in first["loc"]))[:MAX_SHOWN] or "the file"
        raise UserError(f"{path} is not a learning curve of version {VERSION}: {where}: {first['msg']}") from error


def load_curves(paths: Iterable[Path]) -> list[CurveRecord]:
    """Read all records at or below the paths, in the order of their names. Raises UserError."""
    files = [file for path in paths for file in ([path] if path.is_file() else _curve_files(path))]
    if sum(file.lstat().st_size for file in files) > MAX_TOTAL_BYTES:
        raise UserError(f"the learning curves have more than {MAX_TOTAL_BYTES} bytes together", "Name fewer.")
    return [load_curve(file) for file in files]


def _curve_files(folder: Path) -> list[Path]:
    try:
        return [folder / name for name in list_files(folder, "", MAX_FILES, MAX_DEPTH) if name.endswith(SUFFIX)]
    except FileNotFoundError:
        return []
    except OSError as error:
        raise UserError(
            f"cannot read the learning curves in {folder}: {error.strerror}", "Name a folder of *.curve.json alone."
        ) from error


@cache
def stored_curves() -> tuple[CurveRecord, ...]:
    """Return the curves that ship with the package, on the paper's cases."""
    with resources.as_file(resources.files("evopolicygym.reference") / FOLDER) as folder:
        return tuple(load_curves([folder]))
