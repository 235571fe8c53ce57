"""Captions of Flickr30k in the split of Flickr30k Entities."""

import pathlib
import re
from collections.abc import Iterator

from data_prep.building.record_counts import LeftOut
from data_prep.reading.csv_files import read_csv
from data_prep.reading.published_files import Photograph
from data_prep.reading.text_lines import TextLines, read_caption
from xmodal.core.errors import UnexpectedFilesError

_LISTS = {"train": "train", "val": "validation", "test": "test"}
TOKENS = "results_20130124.token"
# As unpacked from Kaggle's archive.
TABLES = ("results.csv", "flickr30k_images/results.csv")
# One row lacks its second separator: `2199200615.jpg| 4   A dog runs across the grass .`.
_TABLE_ROW = re.compile(r"(?P<name>[^|]+)\|\s*(?P<number>\d)\s*(\|\s*|\s{3})(?P<caption>.*)")


def read_entities(folder: pathlib.Path) -> dict[str, list[Photograph]]:
    """Reads all captions and the lists `train.txt`, `val.txt` and `test.txt`.

    Captions are those of `results_20130124.token`, or of `results.csv`, as Kaggle has them. The id
    of an image is its position among the sorted names of all images in the captions; the id of its
    k-th caption is 5 x image id + k.

    Returns:
      Split -> its images.

    Raises:
      FileNotFoundError: a file is missing.
      UnexpectedFilesError: a file is damaged, or the files do not match.
    """
    texts: dict[str, dict[int, str]] = {}
    source = next((name for name in (TOKENS, *TABLES) if (folder / name).exists()), TOKENS)
    rows = _read_tokens(folder / source) if source == TOKENS else _read_table(folder / source)
    for where, name, number, caption in rows:
        if not name or number not in set("01234") or int(number) in texts.get(name, {}):
            key = f"{name}#{number}"
            raise UnexpectedFilesError(f"{where}: {key!r} is not a new name.jpg#0 to #4")
        texts.setdefault(name, {})[int(number)] = caption
    ids = {name: number for number, name in enumerate(sorted(texts))}
    splits = {}
    for name, split in _LISTS.items():
        names = _read_names(folder / f"{name}.txt")
        if unknown := [image for image in names if len(texts.get(image, ())) != 5]:
            raise UnexpectedFilesError(
                f"{folder / name}.txt lists {unknown[0]}, which does not have five captions in "
                f"{source} ({len(unknown)} such images)"
            )
        splits[split] = [
            Photograph(
                image,
                ids[image],
                tuple((5 * ids[image] + k, texts[image][k]) for k in range(5)),
            )
            for image in names
        ]
    return splits


def _read_tokens(path: pathlib.Path) -> Iterator[tuple[str, str, str, str]]:
    columns = ("key", "caption")
    for where, row in read_csv(path, columns=columns, delimiter="\t", header=False, quotes=False):
        name, _, number = row["key"].rpartition("#")
        yield where, name, number, row["caption"]


def _read_table(path: pathlib.Path) -> Iterator[tuple[str, str, str, str]]:
    """Rows `1000092795.jpg| 0| Two young guys ...` under the header `image_name| comment_number|`.

    Quotes in captions do not delimit fields, and no field contains the separator.
    """
    for line, content in enumerate(TextLines(path), 1):
        where, text = f"{path.name} line {line}", read_caption(content, f"{path.name} line {line}")
        row = _TABLE_ROW.fullmatch(text) if isinstance(text, str) else None
        if row is not None:
            yield where, row["name"].strip(), row["number"], row["caption"].strip()
        elif line > 1 or not content.startswith(b"image_name|"):
            fault = text.reason if isinstance(text, LeftOut) else "no name.jpg| number| caption"
            raise UnexpectedFilesError(f"{path.parent / where}: {fault}")


def _read_names(path: pathlib.Path) -> list[str]:
    """Names in a list of Flickr30k Entities, which omits their extension."""
    names = [row["name"] for _, row in read_csv(path, columns=("name",), header=False)]
    return [name if name.endswith(".jpg") else f"{name}.jpg" for name in map(str.strip, names)]
