"""Common uses of a model ("habits"): the rows of the table in docs/reference/habits.md."""
