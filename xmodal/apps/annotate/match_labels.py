"""Positives of queries, in the layout of ECCV Caption."""

import dataclasses
import json
import pathlib
from collections.abc import Iterable, Mapping

from data_prep.cxc.cxc_files import THRESHOLDS
from xmodal.apps.annotate.collected import Answer, group
from xmodal.apps.annotate.golden import POSITIVE
from xmodal.apps.annotate.study_file import StudyFile
from xmodal.core.errors import UserError

_Pair = tuple[int, int]  # Caption and image.
Lists = dict[int, list[int]]


@dataclasses.dataclass(frozen=True)
class Judged:
    """Pairs of captions and images that raters labeled.

    Attributes:
      positive: pairs that more than half of the raters call right, fully or mostly.
      negative: all other pairs.
    """

    positive: frozenset[_Pair]
    negative: frozenset[_Pair]


def judge_pairs(answers: Iterable[Answer]) -> Judged:
    """Returns the judgment of every candidate with all its answers."""
    counted = [answer for answer in answers if answer.counts]
    positive: set[_Pair] = set()
    negative: set[_Pair] = set()
    for pair, of_pair in group(counted, lambda answer: (answer.left, answer.right)).items():
        yes = sum(answer.value in POSITIVE for answer in of_pair)
        (positive if 2 * yes > len(of_pair) else negative).add(pair)
    return Judged(frozenset(positive), frozenset(negative))


def positives_of_queries(
    pairs: Iterable[_Pair], image_queries: Iterable[int], caption_queries: Iterable[int]
) -> dict[str, Lists]:
    """Returns direction, `i2t` and `t2i`, -> query -> sorted ids, for queries with positives.

    Args:
      pairs: positive ones.
      image_queries: ids.
      caption_queries: ids.
    """
    images, captions = set(image_queries), set(caption_queries)
    found: dict[str, dict[int, set[int]]] = {"i2t": {}, "t2i": {}}
    for caption, image in pairs:
        if image in images:
            found["i2t"].setdefault(image, set()).add(caption)
        if caption in captions:
            found["t2i"].setdefault(caption, set()).add(image)
    return {
        direction: {query: sorted(lists[query]) for query in sorted(lists)}
        for direction, lists in found.items()
    }


def lists_files(name: str, lists: Mapping[str, Lists]) -> dict[str, str]:
    """Returns file name -> content, in the format of the released JSON files."""
    ends = {"i2t": "image_to_caption", "t2i": "caption_to_image"}
    return {f"{name}_{ends[direction]}.json": json.dumps(lists[direction]) for direction in lists}


def read_originals(study: StudyFile) -> list[_Pair]:
    """Returns every caption of the split with its own image."""
    with study.reading() as connection:
        rows = connection.execute("SELECT id, image FROM captions ORDER BY rowid").fetchall()
    return [tuple(row) for row in rows]


def read_added(folder: str, split: str) -> set[_Pair]:
    """Returns the CxC positives of a folder of annotations: its lists, else its ratings from 3 on.

    Raises:
      UserError: the folder has neither.
    """
    from xmodal.evals.labels.annotations import read_annotations

    labels = read_annotations(folder, split)
    if lists := labels.lists.get("cxc"):
        pairs: set[_Pair] = set()
        for direction, (queries, items) in lists.items():
            captions, images = (items, queries) if direction == "i2t" else (queries, items)
            pairs.update(zip(captions.tolist(), images.tolist(), strict=True))
        return pairs
    if (rated := labels.ratings.get("sits")) is None:
        raise UserError(f"{folder} has neither positives of CxC nor ratings of sits to add.")
    good = rated["scores"] >= THRESHOLDS["sits"]
    ids = (rated[side][good].tolist() for side in ("left_ids", "right_ids"))
    return set(zip(*ids, strict=True))


def read_left_out(path: str) -> set[int]:
    """Returns the caption ids of a text file, one per line.

    Raises:
      UserError: the file cannot be read, or has other content.
    """
    try:
        lines = pathlib.Path(path).read_text(encoding="utf-8-sig").split()
        return {int(line) for line in lines}
    except (OSError, ValueError) as error:
        raise UserError(f"--without={path} is not a list of caption ids: {error}.") from error
