"""Turns results by query into numbers with intervals, tables, comparisons and files."""
