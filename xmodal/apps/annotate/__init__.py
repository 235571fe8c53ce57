"""Studies in which people rate pairs, as local web pages; run by `python -m xmodal annotate`."""
