"""Explanations of failed allocations: live memory, its holders, and a line of code as a remedy."""
