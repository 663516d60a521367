"""From a captured graph to a plan within a budget, written as graphs."""
