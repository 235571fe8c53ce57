"""Files as COCO and Karpathy distribute them: JSON, unpacked or in archives, and lists of ids."""

import dataclasses
import itertools
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

from data_prep.reading.split_names import SYNONYMS, check_split_names
from data_prep.reading.text_files import open_archive, parse_json, read_json, read_member
from xmodal.core.errors import UnexpectedFilesError
from xmodal.core.untrusted.names import name_key
from xmodal.core.untrusted.saved_arrays import DAMAGE, load_arrays

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
      **hooks: see `parse_json_text`.

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


def read_ids(path: pathlib.Path) -> list[int]:
    """Reads a list of ids from an .npy file of integers.

    Raises:
      FileNotFoundError: there is no such file.
      UnexpectedFilesError: it is damaged, or not such a list.
    """
    try:
        return list(map(int, load_arrays(path)))
    except FileNotFoundError:
        raise
    except DAMAGE as error:
        raise wrong_form(str(path), error) from error


@dataclasses.dataclass(frozen=True)
class Photograph:
    """An image with its captions.

    Attributes:
      name: name of its file, such as `1000092795.jpg`.
      image_id: see the readers.
      captions: id and text of every caption.
      folder: the folder of the file, such as `val2014`; "" if it is not given.
    """

    name: str
    image_id: int
    captions: tuple[tuple[int, str], ...]
    folder: str = ""


Photographs = Mapping[str, Sequence[Photograph]]
"""By split."""


def read_karpathy(folder: pathlib.Path, dataset: str) -> Photographs:
    """Reads Karpathy's file, `dataset_coco.json`, from a folder or from an archive in it.

    Args:
      folder: folder of the manually downloaded files.
      dataset: `coco`, `flickr8k` or `flickr30k`.

    Returns:
      Karpathy's splits, see `in_splits`. Ids are `sentid` and `imgid`, or `cocoid` for COCO images.

    Raises:
      FileNotFoundError: there is no such file.
      UnexpectedFilesError: it is damaged or in another format.
    """
    content, source = read_published_json(folder, f"dataset_{dataset}.json")
    return _photographs(content, source, "cocoid" if dataset == "coco" else "imgid")


def read_karpathy_file(path: pathlib.Path, *, has_ids: bool = True) -> Photographs:
    """Reads a file in the same format, of any name.

    Args:
      path: path of the file.
      has_ids: whether its ids are those of the images and captions, which otherwise are counted in
        the order of the file, from 0.

    Raises:
      FileNotFoundError: there is no such file.
      UnexpectedFilesError: it is damaged or in another format.
    """
    return _photographs(read_json(path), str(path), "imgid" if has_ids else "")


def _photographs(content: Any, source: str, id_name: str) -> Photographs:
    splits: dict[str, list[Photograph]] = {}
    counted = itertools.count()
    number = -1
    try:
        for number, image in enumerate(content["images"]):
            captions = tuple(
                (int(each["sentid"]) if id_name else next(counted), str(each["raw"]))
                for each in image["sentences"]
            )
            image_id = int(image[id_name]) if id_name else number
            place = str(image.get("filepath") or "")
            photograph = Photograph(str(image["filename"]), image_id, captions, place)
            splits.setdefault(str(image.get("split", "")), []).append(photograph)
    except WRONG_FORM as error:
        raise wrong_form(f"{source}: image {number}", error) from error
    return splits


def in_splits(karpathy: Photographs, place: str = "Karpathy's file") -> dict[str, list[Photograph]]:
    """Karpathy's splits as those of a dataset: train and restval, val, test.

    Args:
      karpathy: see `read_karpathy`.
      place: names the file in messages.

    Raises:
      UnexpectedFilesError: a split has an unknown name, or none.
    """
    sizes = {name or "none": len(photographs) for name, photographs in karpathy.items()}
    check_split_names(sizes, place)
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
