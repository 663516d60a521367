"""Callbacks for training loops that belong to somebody else; nothing here is imported where its framework is not."""
