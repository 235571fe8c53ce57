"""The first pass over all pictures, which chooses splits and assigns ids."""

import collections
import dataclasses
import hashlib
import time
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from absl import logging

from data_prep.building.image_check import check_readable, small_jpeg
from data_prep.building.record_counts import LeftOut
from data_prep.captioned_images.captioned_pictures import (
    APPEARS_TWICE,
    UNREADABLE,
    CaptionedPicture,
)
from data_prep.captioned_images.layouts import Layout
from data_prep.captioned_images.numeric_captions import check_captions
from data_prep.captioned_images.preview import MOST_SHOWN, Example
from data_prep.reading.fetched_images import text_hash
from data_prep.same_text import text_key
from xmodal.core.errors import BadImageError, UnexpectedFilesError

_PREVIEW = 240  # pixels
_LOG_SECONDS = 10.0
_FAULTS = 100


@dataclasses.dataclass(frozen=True)
class Survey:
    """All pictures of a folder, in the order of its layout.

    Attributes:
      names: unique names of the pictures.
      splits: splits according to the files, "" for none.
      num_captions: int32 [N].
      usable: bool [N], whether each picture can be decoded and has a caption.
      digests: SHA-256 of every file, 64 hexadecimal digits; for unusable pictures, of the name.
      caption_rows, caption_keys: int64 and uint64 [C], the picture of every caption and a hash of
        its words.
      left_out: reason -> number of pictures, rows and captions.
      faults: the first pictures and other records that are not usable, and captions without a text.
      entries: number of records that the layout itself left out.
      examples: a few usable pictures, chosen by their digests.
      rows: the row of every picture in a part, by part: -1 if an earlier picture of the same split
        has the same content and gets its captions; see `CaptionedPicture.by_content`.
      joined: row -> all captions of a picture that got those of others.
      copies: (part, picture) -> number of its captions that an earlier picture already has.
    """

    names: list[str]
    splits: list[str]
    num_captions: np.ndarray
    usable: np.ndarray
    digests: list[str]
    caption_rows: np.ndarray
    caption_keys: np.ndarray
    left_out: dict[str, int]
    faults: list[LeftOut]
    entries: int
    examples: list[Example]
    rows: list[list[int]]
    joined: dict[int, tuple[str, ...]]
    copies: dict[tuple[int, int], int]

    @property
    def reasons(self) -> str:
        """What was left out, the most frequent reason first; "" for nothing."""
        reasons = sorted(self.left_out.items(), key=lambda item: (-item[1], item[0]))
        return ", ".join(f"{reason} {count:,}" for reason, count in reasons)

    def image_ids(self) -> np.ndarray:
        """Id of every picture, int64 [N]: its position in the sorted list of names."""
        ids = np.empty(len(self.names), np.int64)
        ids[self._order] = np.arange(len(self.names))
        return ids

    def first_caption_ids(self) -> np.ndarray:
        """Id of the first caption of every picture, int64 [N]; the others follow."""
        counts = self.num_captions[self._order].astype(np.int64)
        first = np.empty(len(self.names), np.int64)
        first[self._order] = np.cumsum(counts) - counts
        return first

    @property
    def _order(self) -> list[int]:
        return sorted(range(len(self.names)), key=self.names.__getitem__)


@dataclasses.dataclass(frozen=True)
class Look:
    """The record of a picture from the first pass.

    Attributes:
      picture: the picture without its content.
      digest: see `Survey`.
      fault: why the picture cannot be used; None if it can.
      caption_keys: hashes of the words of its captions.
      preview: a small JPEG of a picture that may be an example, or b"".
    """

    picture: CaptionedPicture
    digest: str
    fault: LeftOut | None
    caption_keys: list[int]
    preview: bytes = b""


def look_at_part(layout: Layout, part: Any) -> list[Look | LeftOut]:
    """Examines the pictures in a part of a layout.

    Returns:
      A `Look` for every picture, and every entry that was left out.
    """
    started = logged = time.monotonic()
    found: list[Look | LeftOut] = []
    lowest: list[str] = []
    for item in layout.read(part):
        if isinstance(item, LeftOut):
            found.append(item)
            continue
        if (now := time.monotonic()) - logged > _LOG_SECONDS:
            logged = now
            rate = len(found) / (now - started)
            logging.info("Examined %s pictures, %.0f per second.", f"{len(found):,}", rate)
        look, encoded = _look_at(item)
        if look.fault is None and (len(lowest) < MOST_SHOWN or look.digest < lowest[-1]):
            lowest = sorted([*lowest, look.digest])[:MOST_SHOWN]
            look = dataclasses.replace(look, preview=small_jpeg(encoded, _PREVIEW))
        found.append(look)
    return found


def survey(parts: Iterable[Sequence[Look | LeftOut]], *, by_content: bool = False) -> Survey:
    """Joins the results for the parts of a layout.

    Args:
      parts: results of `look_at_part`, in order.
      by_content: whether to ignore splits named by files and folders.

    Raises:
      UnexpectedFilesError: two pictures have the same name, or captions are only numbers.
    """
    joined = _Joined(by_content)
    for part in parts:
        joined.places.append([])
        for look in part:
            if isinstance(look, LeftOut):
                joined.leave_out(look)
            else:
                joined.add(look)
    return joined.survey()


class _Joined:
    """The pictures so far, whose parts are `places`; see `Survey`."""

    def __init__(self, by_content: bool) -> None:
        self.places: list[list[int]] = []
        self._by_content = by_content
        self._pictures: list[CaptionedPicture] = []
        self._digests: list[str] = []
        self._usable: list[bool] = []
        self._caption_rows: list[int] = []
        self._caption_keys: list[int] = []
        self._same: dict[tuple[str, str], int] = {}
        self._captions: dict[int, tuple[str, ...]] = {}
        self._copies: dict[tuple[int, int], int] = {}
        self._left_out: collections.Counter[str] = collections.Counter()
        self._faults: list[LeftOut] = []
        self._shown: list[tuple[str, int, bytes]] = []
        self._entries = 0

    def leave_out(self, entry: LeftOut) -> None:
        """Counts an entry that the layout left out."""
        self._left_out[entry.reason] += 1
        self._entries += entry.is_record
        if entry.is_record or entry.reason in ("empty caption", *UNREADABLE):
            self._faults = [*self._faults, entry][:_FAULTS]

    def add(self, look: Look) -> None:
        """Adds a picture of the last part, or its captions to an earlier one."""
        if look.fault is not None:
            self._left_out[look.fault.reason] += 1
            self._faults = [*self._faults, look.fault][:_FAULTS]
        row = len(self._pictures)
        if look.picture.by_content and look.fault is None:
            split = "" if self._by_content else look.picture.split
            row = self._same.setdefault((look.digest, split), row)
        self._caption_rows += [row] * len(look.caption_keys)
        self._caption_keys += look.caption_keys
        if row < len(self._pictures):
            self._add_captions(row, look.picture.captions)
            return
        self.places[-1].append(row)
        self._pictures.append(look.picture)
        self._digests.append(look.digest)
        self._usable.append(look.fault is None)
        if look.preview:
            shown = sorted([*self._shown, (look.digest, row, look.preview)])
            self._shown = shown[:MOST_SHOWN]

    def _add_captions(self, row: int, captions: Sequence[str]) -> None:
        picture = self._pictures[row]
        new = [caption for caption in captions if caption not in picture.captions]
        self._captions[row] = (*picture.captions, *new)
        self._pictures[row] = dataclasses.replace(picture, captions=self._captions[row])
        twice = len(captions) - len(new)
        self._copies[len(self.places) - 1, len(self.places[-1])] = twice
        self._left_out += collections.Counter({APPEARS_TWICE: twice})
        self.places[-1].append(-1)

    def survey(self) -> Survey:
        """Returns all pictures."""
        pictures = self._pictures
        check_captions([pictures[row].captions for _, row, _ in self._shown])
        names = [each.name for each in pictures]
        if len(set(names)) < len(names):
            twice = collections.Counter(names).most_common(1)[0][0]
            raise UnexpectedFilesError(f"two pictures are called {twice}; rename one")
        return Survey(
            names=names,
            splits=["" if self._by_content else each.split for each in pictures],
            num_captions=np.array([len(each.captions) for each in pictures], np.int32),
            usable=np.array(self._usable, bool),
            digests=self._digests,
            caption_rows=np.array(self._caption_rows, np.int64),
            caption_keys=np.array(self._caption_keys, np.uint64),
            left_out=dict(self._left_out),
            faults=self._faults,
            entries=self._entries,
            examples=[Example(names[row], pictures[row].captions, x) for _, row, x in self._shown],
            rows=self.places,
            joined=self._captions,
            copies=self._copies,
        )


def _look_at(picture: CaptionedPicture) -> tuple[Look, bytes]:
    """The record of a picture, and its content, b"" if it cannot be used."""
    digest = hashlib.sha256(picture.name.encode("utf-8", "surrogatepass")).hexdigest()
    keys = [text_hash(key) for key in map(text_key, picture.captions) if key]
    fault, encoded = None, b""
    if not picture.captions:
        fault = LeftOut(picture.name, "no caption")
    else:
        try:
            encoded = picture.read()
            check_readable(encoded)
            digest = hashlib.sha256(encoded).hexdigest()
        except BadImageError as error:
            fault = LeftOut(picture.name, error.reason, error.detail)
    return Look(dataclasses.replace(picture, read=bytes), digest, fault, keys), encoded
