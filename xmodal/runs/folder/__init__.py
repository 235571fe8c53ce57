"""The files in the folder of a run: config, records, checkpoints, locks, card."""
