"""What `python -m memplan` is told: which model, and which inputs."""

from memplan.errors import MemplanError


class UsageError(MemplanError):
    """What was asked cannot be read, or names what is not there."""
