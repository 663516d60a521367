"""Schedules of pipelines: what is in memory beside each call of a stage, and plans of stages that share a budget."""
