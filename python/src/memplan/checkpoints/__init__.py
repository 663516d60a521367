"""Activation checkpoints for users who cannot compile: modules chosen from a plan, with predicted and measured peaks."""
