"""Prints the table: PYTHONPATH=python/src:python/tests python3 -m habits."""

import sys

from habits import calls, frameworks, gradients, loops, models, precision  # noqa: F401
from habits.trial import HABITS, table

sys.stdout.write(table(HABITS))
