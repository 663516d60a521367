"""The backend of torch.compile: it turns captured graphs into callable functions."""
