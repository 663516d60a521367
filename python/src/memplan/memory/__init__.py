"""Memory over time: liveness of the final graphs, allocator simulation, and host memory."""
