"""Reading the arguments of `python -m memplan`: models and inputs."""

from memplan.errors import MemplanError


class UsageError(MemplanError):
    """An argument is malformed, or names something that does not exist."""
