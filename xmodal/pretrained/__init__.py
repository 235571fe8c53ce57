"""Public weights, read from their published files."""
