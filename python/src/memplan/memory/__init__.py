"""What is in memory when, counted on the graphs that run."""
