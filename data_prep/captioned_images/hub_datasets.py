"""Datasets of the library `datasets`, written once as folders that the builder reads."""

import hashlib
import json
import os
import pathlib
import urllib.parse
from typing import Any

from data_prep.captioned_images.captioned_pictures import FILE
from xmodal.core.files import cache_folder, new_folder
from xmodal.core.hub import hub_errors, locate

PREFIX = "hf:"
_BATCH = 256  # Pictures in memory.


def local_folder(place: str) -> str:
    """Returns the folder of a dataset's own files.

    Args:
      place: a folder, which is returned unchanged; a repository of the Hub, `hf://OWNER/NAME`; or
        `hf:FOLDER_OR_NAME`, see `export_dataset`.
    """
    is_dataset = place.startswith(PREFIX) and not place.startswith("hf://")
    return export_dataset(place) if is_dataset else locate(place, "dataset")


def export_dataset(place: str) -> str:
    """Writes a dataset of the library `datasets` once, as Parquet tables in a cache.

    Args:
      place: `hf:` and a folder of `save_to_disk` or one that `load_dataset` reads, or a name on the
        Hub; followed by `?image=COLUMN&captions=COLUMN,COLUMN&split=COLUMN` for columns that do not
        have the usual names of `captioned_images`, and by `config=NAME` for `load_dataset`.

    Returns:
      The folder, with a table for every split and `captioned_images.json`.
    """
    source, _, query = place.removeprefix(PREFIX).partition("?")
    columns: dict[str, Any] = dict(urllib.parse.parse_qsl(query))
    with hub_errors(place):
        import datasets

        if any(os.path.exists(f"{source}/{name}.json") for name in ("dataset_dict", "state")):
            found: Any = datasets.load_from_disk(source)
        else:
            found = datasets.load_dataset(source, columns.pop("config", None))
    splits = found if isinstance(found, dict) else {"all": found}
    if "captions" in columns:
        columns["captions"] = columns["captions"].split(",")
    prints = json.dumps([columns, *(each._fingerprint for each in splits.values())])
    title = os.path.basename(os.path.normpath(source))  # Part of the name of the prepared dataset.
    folder = cache_folder("datasets", hashlib.sha256(prints.encode()).hexdigest()[:16], title)
    if not folder.exists():
        with new_folder(folder) as made:
            for name, each in splits.items():
                _write_table(made / f"{name}.parquet", each.with_format("arrow"))
            (made / FILE).write_text(json.dumps(columns))
    return os.fspath(folder)


def _write_table(path: pathlib.Path, dataset: Any) -> None:
    """Writes a split with the content of its images."""
    import pyarrow.parquet
    from datasets.table import embed_table_storage

    with pyarrow.parquet.ParquetWriter(path, dataset.features.arrow_schema) as writer:
        for table in dataset.iter(_BATCH):
            writer.write_table(embed_table_storage(table))
