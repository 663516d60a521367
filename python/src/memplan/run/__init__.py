"""What torch.compile calls: a captured graph in, something that runs out."""
