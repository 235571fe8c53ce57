"""ECCV Caption labels."""
