"""Figures and tables of rated pairs."""
