"""Files as COCO and Karpathy distribute them: JSON, unpacked or in archives, and lists of ids."""

import dataclasses
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

from data_prep.reading.split_names import SYNONYMS, check_split_names, name_key
from data_prep.reading.text_files import open_archive, parse_json, read_json, read_member
from xmodal.core.errors import UnexpectedFilesError

_ARCHIVES = (
    "annotations_trainval2014.zip",
    "annotations_trainval2017.zip",
    "caption_datasets.zip",
)
# Errors for JSON that can be parsed but does not have the published format.
WRONG_FORM = (AttributeError, KeyError, OverflowError, TypeError, ValueError)


def has_json(folder: pathlib.Path, name: str) -> bool:
    """Whether a JSON file exists, unpacked or in an archive."""
    return _find(folder, name) is not None


def read_published_json(folder: pathlib.Path, name: str, **hooks: Any) -> tuple[Any, str]:
    """Reads a JSON file from a folder, from `annotations` in it, or from one of the archives.

    Args:
      folder: folder of the manually downloaded files.
      name: name of the file, such as `captions_val2014.json`.
      **hooks: see `json.loads`.

    Returns:
      Its content, and where it was found.

    Raises:
      FileNotFoundError: it is in none of these.
      UnexpectedFilesError: the file or the archive is damaged.
    """
    found = _find(folder, name)
    if found is None:
        raise FileNotFoundError(
            f"{folder / name} does not exist; it is not in annotations, {', '.join(_ARCHIVES)} "
            "either"
        )
    path, member = found
    if not member:
        return read_json(path, **hooks), str(path)
    with open_archive(path) as archive:
        source = f"{name} in {path}"
        return parse_json(read_member(archive, member), source, **hooks), source


def _find(folder: pathlib.Path, name: str) -> tuple[pathlib.Path, str] | None:
    """Path of a file and "", or of the archive that contains it and its name in that archive."""
    for path in (folder / name, folder / "annotations" / name):
        if path.exists():
            return path, ""
    for path in (folder / each for each in _ARCHIVES):
        if path.exists():
            with open_archive(path) as archive:
                for member in archive.namelist():
                    # macOS adds a second entry for every name.
                    if pathlib.PurePosixPath(member).name == name and "__MACOSX" not in member:
                        return path, member
    return None


def wrong_form(source: str, error: Exception) -> UnexpectedFilesError:
    """Returns the error for a file that can be read but does not have the published format."""
    return UnexpectedFilesError(
        f"{source} does not have the published format ({type(error).__name__}: {error}); "
        "download it again"
    )


@dataclasses.dataclass(frozen=True)
class Photograph:
    """An image with its captions.

    Attributes:
      name: name of its file, such as `1000092795.jpg`.
      image_id: see the readers.
      captions: id and text of every caption.
    """

    name: str
    image_id: int
    captions: tuple[tuple[int, str], ...]


Photographs = Mapping[str, Sequence[Photograph]]
"""By split."""


def read_karpathy(folder: pathlib.Path, name: str) -> Photographs:
    """Reads a file in Karpathy's format from a folder or from an archive in it.

    Args:
      folder: folder of the manually downloaded files.
      name: `dataset_coco.json`, `dataset_flickr8k.json`, `dataset_flickr30k.json` or another.

    Returns:
      Karpathy's splits, see `in_splits`. Ids are `sentid` and `imgid`, or `cocoid` for COCO images.

    Raises:
      FileNotFoundError: there is no such file.
      UnexpectedFilesError: it is damaged or in another format.
    """
    content, source = read_published_json(folder, name)
    id_name = "cocoid" if name == "dataset_coco.json" else "imgid"
    splits: dict[str, list[Photograph]] = {}
    try:
        for image in content["images"]:
            captions = tuple((int(each["sentid"]), str(each["raw"])) for each in image["sentences"])
            photograph = Photograph(str(image["filename"]), int(image[id_name]), captions)
            splits.setdefault(str(image.get("split", "")), []).append(photograph)
    except WRONG_FORM as error:
        raise wrong_form(source, error) from error
    return splits


def read_official(folder: pathlib.Path, part: str) -> list[Photograph]:
    """Reads COCO's own captions of a part, such as `val2014`, in the order of the file.

    Raises:
      FileNotFoundError: there is no such file.
      UnexpectedFilesError: it is damaged or in another format.
    """
    content, source = read_published_json(folder, f"captions_{part}.json")
    try:
        names = {int(each["id"]): str(each["file_name"]) for each in content["images"]}
        captions: dict[int, list[tuple[int, str]]] = {image_id: [] for image_id in names}
        for each in content["annotations"]:
            captions[each["image_id"]].append((int(each["id"]), str(each["caption"])))
    except WRONG_FORM as error:
        raise wrong_form(source, error) from error
    return [Photograph(names[number], number, tuple(found)) for number, found in captions.items()]


def in_splits(karpathy: Photographs) -> dict[str, list[Photograph]]:
    """Karpathy's splits as those of a dataset: train and restval, val, test.

    Args:
      karpathy: see `read_karpathy`.

    Raises:
      UnexpectedFilesError: a split has an unknown name, or none.
    """
    sizes = {name or "none": len(photographs) for name, photographs in karpathy.items()}
    check_split_names(sizes, "Karpathy's file")
    return {
        split: [
            photograph
            for word in words
            for name, photographs in karpathy.items()
            if name_key(name) == word
            for photograph in photographs
        ]
        for split, words in SYNONYMS.items()
    }


def count(photographs: Photographs) -> dict[str, int]:
    """Number of images in every split, and of `captions` overall."""
    counts = {split: len(images) for split, images in photographs.items()}
    captions = sum(len(image.captions) for images in photographs.values() for image in images)
    return counts | {"captions": captions}
