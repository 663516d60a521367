"""Estimates for one rank of a device mesh, in a single process and without the other devices."""
