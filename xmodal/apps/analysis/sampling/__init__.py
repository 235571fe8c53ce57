"""Samples pairs for raters, and checks the structure of sampled or released pairs."""
