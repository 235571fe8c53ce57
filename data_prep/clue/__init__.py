"""Clue."""
