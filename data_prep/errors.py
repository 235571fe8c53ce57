"""Errors that users can fix; the commands print them without a stack trace."""


class UnexpectedFilesError(ValueError):
    """The manually downloaded files are not the published dataset."""


class DamagedFileError(UnexpectedFilesError):
    """A file is truncated, or not in the format that its name says."""


class ConflictingColumnsError(UnexpectedFilesError):
    """A table has two columns that could be read, which differ."""


class NotPreparedError(ValueError):
    """A dataset has not been built, or its description cannot be read."""
