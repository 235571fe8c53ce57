"""What a person can put right: the errors that the commands print without a stack trace."""


class UnexpectedFilesError(ValueError):
    """The files that were fetched by hand do not hold the published dataset."""
