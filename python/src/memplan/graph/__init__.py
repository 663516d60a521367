"""What PyTorch captures of a training step, as storages and operations for the planner."""
