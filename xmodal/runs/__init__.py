"""Everything that has a folder of a run: the loop, its config, checkpoints and reports."""
