"""What is so without each of PyTorch's private names: the public way with the same results, or what its sentence says."""
