"""What people do with a model, habit by habit: the table of docs/reference/habits.md."""
