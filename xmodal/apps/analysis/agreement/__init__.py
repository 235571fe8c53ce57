"""Rank correlation between metrics over several models, with its report."""
