"""What an agent changed between submissions: source bundles, kinds and sizes of edits, timelines."""
