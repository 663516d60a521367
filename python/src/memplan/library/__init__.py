"""The planner, a C library, through its stable interface."""
