"""Plans without compilation: activation checkpoints around modules, with predicted and measured peaks."""
