"""Exact ranks and tops of lists, from one pass over tiles of scores."""
