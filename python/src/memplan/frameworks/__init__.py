"""Callbacks for training loops of other packages. A module is importable only if its framework is installed."""
