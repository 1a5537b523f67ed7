"""Limits of the work that the analysis of a run may cost, a comparison of many, and an import.

A run folder may come from a stranger, and a record of a few megabytes can name two large checkpoints in turn in a
hundred thousand submissions. All that is read or compared beside the record is counted here; beyond the limit it stays
unknown, and ``notes`` says so. The limits count bytes and lines, not seconds: the same run gives the same result on
every machine.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from evopolicygym.errors import UserError
from evopolicygym.printable import one_line
from evopolicygym.record_checks import MOST_EPISODES

MAX_READ_BYTES: Final = 1 << 30  # of checkpoints, transcripts and feedback together
FILE_COST: Final = 4 << 10  # bytes that opening a file counts as
MAX_COMPARISONS: Final = 4_000_000_000  # pairs of lines
MAX_FEEDBACK_BYTES: Final = 1 << 30  # of one run that is imported
MAX_TASK_COMPARISONS: Final = 100_000  # of two entrants on a task: 80 tasks of 50 entrants
READING: Final = f"more than {MAX_READ_BYTES >> 20} MiB of files; the rest was not read"
COMPARING: Final = "more changed lines than are compared; some sizes and kinds of edits are unknown"


class WorkLimit:
    """Counts what was read and compared for one run."""

    def __init__(self, read_bytes: int = MAX_READ_BYTES, comparisons: int = MAX_COMPARISONS) -> None:
        self._bytes, self._comparisons = read_bytes, comparisons
        self._notes: dict[str, None] = {}

    @property
    def notes(self) -> tuple[str, ...]:
        """Describe what the run has too much of; empty for a run within the limits."""
        return tuple(self._notes)

    @property
    def bytes_left(self) -> int:
        return max(0, self._bytes)

    def read(self, number: int, files: int = 1) -> bool:
        """Count bytes that were read, and return whether more may be read."""
        self._bytes -= number + FILE_COST * files
        if self._bytes < 0:
            self.note(READING)
        return self._bytes >= 0

    def compare(self, pairs: int) -> bool:
        """Return whether so many pairs of lines may be compared, and count them if so."""
        if pairs > self._comparisons:
            self.note(COMPARING)
            return False
        self._comparisons -= pairs
        return True

    def note(self, text: str) -> None:
        """Add a note about what is left out."""
        self._notes[text] = None


class FeedbackLimit:
    """Limits the feedback of all submissions of a run that is imported: one small file can have ten thousand names.
    Raises UserError."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._work, self._episodes = folder, WorkLimit(MAX_FEEDBACK_BYTES), 0

    def count_bytes(self, number: int) -> None:
        if not self._work.read(number):
            raise UserError(f"{one_line(self._folder)} has more than {MAX_FEEDBACK_BYTES >> 20} MiB of feedback")

    def count_episodes(self, number: int) -> None:
        self._episodes += number
        if self._episodes > MOST_EPISODES:
            raise UserError(f"the submissions of {one_line(self._folder)} play more than {MOST_EPISODES} episodes")


def check_comparisons(number: int) -> None:
    """Raise UserError if entrants are to be compared on more tasks than there is memory for."""
    if number > MAX_TASK_COMPARISONS:
        raise UserError(
            f"the entrants on their tasks are {number:,} comparisons; compare takes at most {MAX_TASK_COMPARISONS:,}",
            "Name folders with fewer entrants or tasks, or use `evopolicygym leaderboard`.",
        )
