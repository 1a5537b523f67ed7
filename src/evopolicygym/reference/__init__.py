"""What scores are held against: the paper's printed numbers, measured anchors, and the scale. Data, and its readers."""
