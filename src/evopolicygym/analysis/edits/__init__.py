"""Changes of an agent between submissions: source bundles, kinds and sizes of edits, timelines."""
