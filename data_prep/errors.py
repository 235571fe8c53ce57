"""Errors that a person can put right: the commands print them without a stack trace."""


class UnexpectedFilesError(ValueError):
    """The files that were fetched by hand do not hold the published dataset."""


class NotPreparedError(ValueError):
    """A dataset has not been built, or its description cannot be read."""
