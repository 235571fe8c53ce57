"""The config of a run: its sections, what they leave open, and what a run inherits."""
