"""The released label files of a split, read from one folder."""
