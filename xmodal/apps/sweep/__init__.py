"""Random search over the values of a config, see `python -m xmodal sweep --help`."""
