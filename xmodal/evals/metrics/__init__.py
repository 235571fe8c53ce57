"""Recall, median rank, precision and correlation: functions of ranks, lists and scores."""
