"""Evaluates runs, published towers and files with the evaluators of a config."""
