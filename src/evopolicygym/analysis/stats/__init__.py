"""Estimates from few runs: intervals, rank intervals, variance components, Pareto fronts, power and hit rates."""
