"""Programs that use only the public API and the evaluation; each has extras of its own."""
