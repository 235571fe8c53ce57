"""Boards of a dataset, as data: positives and rated pairs by position."""
