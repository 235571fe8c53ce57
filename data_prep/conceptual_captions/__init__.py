"""Conceptual Captions."""
