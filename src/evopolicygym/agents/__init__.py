"""Agents: definitions of coding CLIs as data, built-in agents, and how their turns, usage and transcripts are read."""
