"""One whole step as a graph: the joint graph with updates."""
