"""Records of ArrayRecord files, read by number."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from xmodal.core.errors import UserError


def read_records(source: Any, rows: np.ndarray, what: str, remedy: str) -> Sequence[bytes]:
    """Reads records by number, in the given order.

    Args:
      source: a data source of `array_record` or TFDS.
      rows: numbers of the records, int64 [N].
      what: what the records are, as the start of an error.
      remedy: what to do about damaged files, as the end of an error.

    Raises:
      UserError: a file is missing, truncated or changed.
    """
    try:
        return source.__getitems__(rows.tolist())
    except RuntimeError as error:  # The only error that the library raises.
        raise UserError(
            f"{what} cannot be read: {str(error).splitlines()[0]}. The file is damaged; {remedy}"
        ) from error
