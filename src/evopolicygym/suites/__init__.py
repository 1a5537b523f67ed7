"""Suites: many runs with one command, scheduled together, resumed by the same command."""
