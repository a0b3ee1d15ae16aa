"""Whose a process is. Knows the model only."""
