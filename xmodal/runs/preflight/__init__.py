"""Checks a run before it starts: compiled programs, their memory, cost and traffic."""
