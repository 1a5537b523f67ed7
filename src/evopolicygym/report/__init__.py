"""The report: one HTML page with tables, figures and diffs, and its figures as files."""
