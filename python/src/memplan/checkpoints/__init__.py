"""Plans for those who cannot compile: checkpoints around modules, and what they come to."""
