"""Situations of public threads about training memory, and what a user sees in each."""

from threads import situations, situations_of_steps

SITUATIONS = situations.SITUATIONS  # filled by both

__all__ = ["SITUATIONS", "situations", "situations_of_steps"]
