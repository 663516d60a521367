"""Situations from public discussions about training memory, and memplan's answer to each."""

from threads import situations, situations_of_steps

SITUATIONS = situations.SITUATIONS  # filled by both

__all__ = ["SITUATIONS", "situations", "situations_of_steps"]
