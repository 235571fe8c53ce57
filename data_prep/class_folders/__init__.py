"""A user's pictures in one folder per class."""
