"""CITE."""
