"""Errors that users can fix; the commands print them without a stack trace."""


class UserError(ValueError):
    """An error in user input; the commands print it without a stack trace."""


class FolderInUseError(UserError):
    """Another process is writing the folder."""


class UnexpectedFilesError(ValueError):
    """The manually downloaded files are not the published dataset."""


class DamagedFileError(UnexpectedFilesError):
    """A file is truncated, or not in the format that its name says."""


class NotPreparedError(ValueError):
    """A dataset has not been built, or its description cannot be read."""


class BadImageError(ValueError):
    """An image that cannot be used.

    Attributes:
      reason: one of a few, such as "no image", "no bytes", "not an image", "truncated image",
        "damaged image", "damaged in the archive" and "too many pixels".
      detail: further details.
    """

    def __init__(self, reason: str, detail: str = "") -> None:
        super().__init__(f"{reason}: {detail}" if detail else reason)
        self.reason = reason
        self.detail = detail
