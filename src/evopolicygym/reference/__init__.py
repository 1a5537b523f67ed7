"""Reference data and its readers: the paper's printed numbers, measured anchors, and the normalisation scale."""
