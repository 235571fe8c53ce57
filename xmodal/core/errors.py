"""Errors that users can fix; the commands print them without a stack trace."""


class UserError(ValueError):
    """An error in user input; the commands print it without a stack trace."""


class UnknownKeyError(UserError):
    """A section of a config has a key that nothing reads."""


class FolderInUseError(UserError):
    """Another process is writing the folder."""


class UnexpectedFilesError(UserError):
    """The manually downloaded files are not the published dataset."""
