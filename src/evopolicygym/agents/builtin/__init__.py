"""Agents that ship: programs of their own, which run where this package cannot be imported."""
