"""Exact ranks and top items of lists, from one pass over tiles of scores."""
