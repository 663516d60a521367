"""Operator costs: measurement, estimates and cache."""
