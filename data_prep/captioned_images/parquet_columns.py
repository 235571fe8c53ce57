"""Columns of Parquet tables that hold images."""

import pathlib
from typing import Any

from data_prep.captioned_images.column_names import IMAGES, find_usual
from data_prep.captioned_images.options import FILE, ReadingOptions
from xmodal.core.errors import DamagedFileError, UnexpectedFilesError


def parquet_schema(path: pathlib.Path) -> Any:
    """Returns the schema of a table.

    Raises:
      DamagedFileError: the file is truncated or not a Parquet table.
    """
    import pyarrow
    import pyarrow.parquet

    try:
        return pyarrow.parquet.read_schema(path)
    except (pyarrow.ArrowException, OSError, UnicodeDecodeError) as error:
        detail = str(error).partition("\n")[0]
        raise DamagedFileError(f"{path} is truncated or not a parquet table: {detail}") from error


def embedded_column(path: pathlib.Path, options: ReadingOptions) -> str:
    """Returns the column that holds the images of a table; "" if they are files.

    That is the column of bytes, or of Hugging Face's structs with `bytes`, with a common name.

    Raises:
      UnexpectedFilesError: there are several, or the file is damaged.
    """
    schema = parquet_schema(path)
    names = [options.image] if options.image in schema.names else find_usual(schema.names, IMAGES)
    found = [name for name in names if _has_bytes(schema.field(name).type)]
    if len(found) > 1:
        raise UnexpectedFilesError(
            f"{path} has images in the columns {found[0]!r} and {found[1]!r}: choose one with "
            f'{{"image": "{found[0]}"}} in {FILE}'
        )
    return found[0] if found else ""


def _has_bytes(kind: Any) -> bool:
    import pyarrow

    if pyarrow.types.is_struct(kind):
        return kind.get_field_index("bytes") >= 0
    return pyarrow.types.is_binary(kind) or pyarrow.types.is_large_binary(kind)
