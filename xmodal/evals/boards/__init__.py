"""What is asked of a model on a dataset, as data: positives and rated pairs by position."""
