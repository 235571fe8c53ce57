"""A package, since other rooms have test files of the same names."""
