"""Checks, counts and hashes of the records of every build, and lists of records left out."""
