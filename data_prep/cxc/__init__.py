"""Crisscrossed Captions."""
