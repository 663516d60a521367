"""Captured graphs of training steps as storages and operations for the planner."""
