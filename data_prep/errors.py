"""Errors that users can fix; the commands print them without a stack trace."""


class UnexpectedFilesError(ValueError):
    """The manually downloaded files are not the published dataset."""


class NotPreparedError(ValueError):
    """A dataset has not been built, or its description cannot be read."""
