"""The first state of a run: its own checkpoint, other weights, or random values."""
