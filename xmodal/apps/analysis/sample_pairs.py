r"""Samples pairs of captions and images to be rated, as Crisscrossed Captions (CxC) did.

    python -m xmodal sample_pairs within --groups=LABELS --images=CNN.npz \
        --captions=A.npz,B.npz --output=PAIRS
    python -m xmodal sample_pairs across --groups=LABELS --ratings_dir=RATED --output=PAIRS

`within` writes the pairs to rate first: `sts_*.csv`, captions of images that are similar by
--images and captions of one image, and `sis_*.csv`, images whose captions are similar by
--captions. Embeddings are npz files as for `python -m xmodal.eval_main --embeddings`. Once these
have a column `agg_score`, `across` makes pairs of captions and images from them: `sits_*.csv`.

LABELS is a folder with CxC's `sits` file, or a csv file with the columns caption_id, image_id and
split; --dataset names a prepared dataset instead.
"""

import argparse
import json
import pathlib
from typing import Any

import numpy as np

from data_prep.cxc.cxc_files import file_name
from data_prep.sampling.groups import Groups
from xmodal.apps.analysis.ratings.rated_pairs import is_rated, read_folder
from xmodal.apps.analysis.samplers import (
    file_contents,
    group_vectors,
    read_dataset_groups,
    read_groups,
    sample_across,
    sample_within,
)
from xmodal.apps.arguments import add_dataset, make_parser, name_list, natural_int, prepared_dir
from xmodal.core import console
from xmodal.core.errors import UserError
from xmodal.core.files import check_writable, write_files

_WRITTEN = {"within": ("sts", "sis"), "across": ("sits",)}


@console.readable_errors()
def main() -> None:
    """Samples pairs as the command line says, and writes them."""
    args = _parse()
    check_writable(args.output)
    for rating in _WRITTEN[args.command]:
        path = pathlib.Path(args.output) / file_name(rating, args.split)
        if path.exists() and is_rated(path):
            raise UserError(f"{path} has ratings, which would be lost; use another --output.")
    if args.dataset:
        groups = read_dataset_groups(args.dataset, args.config, prepared_dir(args), args.split)
    else:
        groups = read_groups(pathlib.Path(args.groups), args.split)
    pairs, settings = args.run(args, groups)
    counts = {method: len(rows) for method, rows in pairs.items()}
    settings = {"split": args.split, "seed": args.seed, **settings, "pairs": counts}
    contents = file_contents(args.split, groups, pairs)
    contents[f"sampling_{args.command}_{args.split}.json"] = json.dumps(settings, indent=2) + "\n"
    write_files(args.output, contents)
    print(*(f"{method}: {count:,} pairs" for method, count in counts.items()), sep="\n")
    print(f"{args.output}: {', '.join(contents)}")


def _within(args: argparse.Namespace, groups: Groups) -> tuple[dict[str, np.ndarray], Any]:
    """Returns pairs within a modality, by method, and the settings to record."""
    paths = {"image": args.images, "caption": args.captions}
    images, captions = ([group_vectors(path, kind, groups) for path in each]
                        for kind, each in paths.items())  # fmt: skip
    pairs = sample_within(groups, images, captions, seed=args.seed, drawn=args.draw)
    return pairs, {"drawn": args.draw, "files": paths}


def _across(args: argparse.Namespace, groups: Groups) -> tuple[dict[str, np.ndarray], Any]:
    """Returns pairs of captions and images, by method, and the settings to record."""
    rated = read_folder(pathlib.Path(args.ratings_dir), args.split)
    return sample_across(groups, rated, seed=args.seed), {"files": {"ratings": args.ratings_dir}}


def _parse() -> argparse.Namespace:
    parser = make_parser("sample_pairs", __doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    within = commands.add_parser("within")
    within.add_argument("--images", type=name_list, default=[], help="embeddings, FILE,...")
    within.add_argument("--captions", type=name_list, default=[], help="embeddings, FILE,...")
    within.add_argument(
        "--draw",
        action="store_true",
        help="c2c_isim: random captions, as in the paper, not captions in turn, as released",
    )
    across = commands.add_parser("across")
    across.add_argument("--ratings_dir", required=True, help="folder of rated pairs")
    for command, run in ((within, _within), (across, _across)):
        command.set_defaults(run=run)
        place = command.add_mutually_exclusive_group(required=True)
        place.add_argument("--groups", help="folder or csv file: which caption is of which image")
        add_dataset(command, "instead of --groups", config=None, choice=place)
        command.add_argument("--output", required=True, help="folder for the pairs")
        command.add_argument("--seed", type=natural_int, default=0, help="seed of all draws")
    return parser.parse_args()


if __name__ == "__main__":
    console.run(main)
