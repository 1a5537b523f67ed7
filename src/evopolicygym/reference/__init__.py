"""Reference data and its readers: the paper's printed numbers, measured anchors, experts, the normalisation scale."""

from typing import Final

SCALE_VERSIONS: Final = (1, 2)
CURRENT_SCALE: Final = 2
