"""Finds images and captions by a text or a picture."""
