"""Adds CxC's caption-image scores to Karpathy's split of MS-COCO, as the release's script does.

    python -m xmodal merge_cxc --manual_dir=COCO --ratings_dir=CXC --output=FILE.json

COCO has dataset_coco.json, or caption_datasets.zip with it; CXC sits_val.csv and sits_test.csv.
Every validation and test image gets a list `cxc_scores`: [sentid, score, method] of each caption
that was rated with it, then [file name, score, method] of each other image that was rated with one
of its captions. Scores are strings, as in the CSV files.
"""

import argparse
import collections
import json
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

from data_prep.cxc.rating_files import RELEASED, Rating, file_name, read_ratings
from data_prep.reading.published_files import WRONG_FORM, read_published_json, wrong_form
from xmodal.core import console
from xmodal.core.files import write_file


@console.readable_errors()
def main() -> None:
    """Writes the file that the command line names."""
    parser = argparse.ArgumentParser(
        prog="xmodal merge_cxc",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    for name in ("manual_dir", "ratings_dir", "output"):
        parser.add_argument(f"--{name}", type=pathlib.Path, required=True)
    args = parser.parse_args()
    content, source = read_published_json(args.manual_dir, "dataset_coco.json")
    paths = [args.ratings_dir / file_name("sits", split) for split in RELEASED["sits"]]
    ratings = [pair for path in paths for pair in read_ratings(path, "sits")]
    try:
        add_scores(content, ratings)
    except WRONG_FORM as error:
        raise wrong_form(source, error) from error
    write_file(args.output, json.dumps(content))
    print(f"{args.output}: the scores of {len(ratings):,} pairs")


def add_scores(content: Mapping[str, Any], ratings: Sequence[Rating]) -> None:
    """Adds `cxc_scores` to the validation and test images.

    Args:
      content: Karpathy's JSON, which is changed.
      ratings: pairs of a caption and an image.
    """
    of_item = collections.defaultdict[int | str, list](list)
    for pair in ratings:
        name, score = f"COCO_val2014_{pair.right_id:012d}.jpg", str(pair.score)
        of_item[name].append((pair.left_id, score, pair.method))
        if pair.method != "c2i_original":
            of_item[pair.left_id].append((name, score, pair.method))
    for image in content["images"]:
        if image["split"] in ("val", "test"):
            items = [image["filename"], *image["sentids"]]
            image["cxc_scores"] = [each for item in items for each in of_item[item]]


if __name__ == "__main__":
    console.run(main)
