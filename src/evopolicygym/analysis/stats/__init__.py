"""Estimates from few runs: intervals, bootstrap draws, rank intervals, power and hit rates."""
