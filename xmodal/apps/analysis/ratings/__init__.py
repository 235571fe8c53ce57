"""Rated pairs: readers, statistics, cosines and plots."""
