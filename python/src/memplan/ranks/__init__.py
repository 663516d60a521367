"""Agreement among the ranks that plan together."""
