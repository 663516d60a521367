"""What operators cost, measured and kept."""
