r"""Samples pairs of captions and images to be rated, as Crisscrossed Captions (CxC) did.

    python -m xmodal sample_pairs within --groups=LABELS --images=CNN.npz \
        --captions=A.npz,B.npz --output=PAIRS
    python -m xmodal sample_pairs across --groups=LABELS --ratings_dir=RATED --output=PAIRS
    python -m xmodal sample_pairs check RELEASED --groups=LABELS

`within` writes the pairs to rate first: `sts_*.csv`, captions of images that are similar by
--images and captions of one image, and `sis_*.csv`, images whose captions are similar by
--captions. Embeddings are npz files as for `python -m xmodal.eval_main --embeddings`. Once these
have a column `agg_score`, `across` makes pairs of captions and images from them: `sits_*.csv`. All
three print which properties of the scheme hold for the pairs, and exit with 1 if one does not.

LABELS is a folder with CxC's `sits` file, or a csv file with the columns caption_id, image_id and
split; --dataset names a prepared dataset instead.
"""

import argparse
import json
import pathlib
import sys
from collections.abc import Mapping
from typing import Any

import numpy as np

from data_prep.cxc.cxc_files import THRESHOLDS, file_name
from data_prep.sampling.groups import Groups
from data_prep.sampling.nearest_neighbors import NEIGHBORS
from data_prep.sampling.scheme import PER_SOURCE
from xmodal.apps.analysis.ratings.rated_pairs import is_rated, read_folder
from xmodal.apps.analysis.sampling.samplers import (
    file_contents,
    group_vectors,
    located_by_method,
    read_dataset_groups,
    read_groups,
    sample_across,
    sample_within,
)
from xmodal.apps.analysis.sampling.structure import check_structure, format_facts
from xmodal.apps.arguments import (
    add_dataset,
    make_parser,
    name_list,
    natural_int,
    positive_int,
    prepared_dir,
)
from xmodal.core import console
from xmodal.core.errors import NotPreparedError, UnexpectedFilesError, UserError
from xmodal.core.result_files import check_writable, write_files


@console.readable_errors(FileNotFoundError, NotPreparedError, UnexpectedFilesError)
def main() -> None:
    """Samples or checks pairs as the command line says."""
    args = _parse()
    if args.dataset:
        groups = read_dataset_groups(args.dataset, args.config, prepared_dir(args), args.split)
    else:
        groups = read_groups(pathlib.Path(args.groups), args.split)
    if not args.run(args, groups):
        sys.exit(1)


def _within(args: argparse.Namespace, groups: Groups) -> bool:
    """Samples and writes pairs within a modality; returns whether they have all properties."""
    paths = {"image": args.images, "caption": args.captions}
    if not any(paths.values()):
        raise UserError("Use --images, --captions or both: pairs come from embeddings.")
    _check_output(args, ("sts", "sis"))
    images, captions = ([group_vectors(path, kind, groups) for path in each]
                        for kind, each in paths.items())  # fmt: skip
    options = {"neighbors": args.neighbors, "drawn": args.draw}
    pairs = sample_within(groups, images, captions, seed=args.seed, **options)
    return _write(args, groups, pairs, options | {"files": paths})


def _across(args: argparse.Namespace, groups: Groups) -> bool:
    """Samples and writes pairs of captions and images; returns whether they have all properties."""
    _check_output(args, ("sits",))
    rated = read_folder(pathlib.Path(args.ratings_dir), args.split)
    rated.pop("sits", None)
    pairs = sample_across(groups, rated, seed=args.seed, per_source=args.per_source)
    settings = {"per_source": args.per_source, "files": {"ratings": args.ratings_dir}}
    return _write(args, groups, pairs, settings, located_by_method(rated, groups))


def _check(args: argparse.Namespace, groups: Groups) -> bool:
    """Reports on existing pairs; returns whether they have all properties."""
    rated = read_folder(pathlib.Path(args.pairs), args.split, need_scores=False)
    pairs, positive = located_by_method(rated, groups), None
    if (sits := rated.get("sits")) is not None and sits.scores is not None:
        positive = np.concatenate([pairs[method] for method in sits.by_method()])
        scores = np.concatenate([sits.scores[rows] for rows in sits.by_method().values()])
        positive = positive[scores >= THRESHOLDS["sits"]]
    facts = check_structure(
        pairs, groups, neighbors=args.neighbors, drawn=args.draw, positive=positive
    )
    print(format_facts(facts))
    return all(fact.holds for fact in facts)


def _write(
    args: argparse.Namespace,
    groups: Groups,
    pairs: Mapping[str, np.ndarray],
    settings: Mapping[str, Any],
    sources: Mapping[str, np.ndarray] | None = None,
) -> bool:
    """Writes sampled pairs and prints facts about them, not about the rated pairs of `sources`."""
    known = {**pairs, **(sources or {})}
    drawn, neighbors = settings.get("drawn", False), settings.get("neighbors", 1)
    facts = check_structure(known, groups, neighbors=neighbors, drawn=drawn)
    facts = [fact for fact in facts if fact.method in pairs]
    settings = {"split": args.split, "seed": args.seed, **settings}
    settings["pairs"] = {method: len(rows) for method, rows in pairs.items()}
    contents, table = file_contents(args.split, groups, pairs), format_facts(facts)
    contents[f"structure_{args.command}_{args.split}.txt"] = table + "\n"
    contents[f"sampling_{args.command}_{args.split}.json"] = json.dumps(settings, indent=2) + "\n"
    write_files(args.output, contents)
    print(f"{table}\n\n{args.output}: {', '.join(contents)}")
    return all(fact.holds for fact in facts)


def _check_output(args: argparse.Namespace, ratings: tuple[str, ...]) -> None:
    """Raises an error, before any work, if the output is not writable or has ratings."""
    check_writable(args.output)
    for rating in ratings:
        path = pathlib.Path(args.output) / file_name(rating, args.split)
        if path.exists() and is_rated(path):
            raise UserError(f"{path} has ratings, which would be lost; use another --output.")


def _parse() -> argparse.Namespace:
    parser = make_parser("sample_pairs", __doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    within = commands.add_parser("within")
    within.add_argument("--images", type=name_list, default=[], help="embeddings, FILE,...")
    within.add_argument("--captions", type=name_list, default=[], help="embeddings, FILE,...")
    across = commands.add_parser("across")
    across.add_argument("--ratings_dir", required=True, help="folder of rated pairs")
    across.add_argument(
        "--per_source", type=positive_int, default=PER_SOURCE, help="pairs per image and rating"
    )
    check = commands.add_parser("check")
    check.add_argument("pairs", help="folder of sampled or released pairs")
    for command, run in ((within, _within), (across, _across), (check, _check)):
        command.set_defaults(run=run)
        command.add_argument("--groups", help="folder or csv file: which caption is of which image")
        add_dataset(command, "instead of --groups", config=None)
    for command in (within, across):
        command.add_argument("--output", required=True, help="folder for the pairs")
        command.add_argument("--seed", type=natural_int, default=0, help="seed of all draws")
    for command in (within, check):
        command.add_argument(
            "--neighbors", type=positive_int, default=NEIGHBORS, help="per item and encoder"
        )
        command.add_argument(
            "--draw",
            action="store_true",
            help="c2c_isim: random captions, as in the paper, not captions in turn, as released",
        )
    args = parser.parse_args()
    if bool(args.groups) == bool(args.dataset):
        parser.error("either --groups or --dataset is needed")
    return args


if __name__ == "__main__":
    console.run(main)
