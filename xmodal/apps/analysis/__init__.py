"""Studies of labels and metrics, each with its own command, listed in README.md."""
