"""Pipeline schedules: memory besides each call of a stage, and plans of stages that share a budget."""
