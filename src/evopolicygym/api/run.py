"""Let an agent play one run."""
