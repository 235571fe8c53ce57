"""Readers of what users have on disk: tables, archives, pictures, shards, rated pairs."""
