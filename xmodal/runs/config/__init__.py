"""The config of a run: its sections, values from the dataset, inherited settings."""
