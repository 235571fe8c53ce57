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

import data_prep
from data_prep.command_line import check_config
from data_prep.cxc.cxc_files import THRESHOLDS, file_name
from data_prep.sampling.groups import Groups
from data_prep.sampling.nearest_neighbors import NEIGHBORS
from data_prep.sampling.scheme import PER_SOURCE
from xmodal.apps.analysis.ratings.rated_pairs import is_rated, read_folder
from xmodal.apps.analysis.sampling.inputs import (
    group_vectors,
    read_dataset_groups,
    read_groups,
)
from xmodal.apps.analysis.sampling.samplers import (
    file_contents,
    located_by_method,
    sample_across,
    sample_within,
)
from xmodal.apps.analysis.sampling.structure import (
    Fact,
    check_structure,
    format_facts,
)
from xmodal.apps.arguments import make_parser, name_list, natural_int, positive_int
from xmodal.core import console
from xmodal.core.errors import NotPreparedError, UnexpectedFilesError, UserError
from xmodal.core.result_files import check_writable, write_files


@console.readable_errors(FileNotFoundError, NotPreparedError, UnexpectedFilesError)
def main() -> None:
    """Samples or checks pairs as the command line says."""
    args = _parse()
    groups = _read_groups(args)
    facts = args.run(args, groups)
    if not all(fact.holds for fact in facts):
        sys.exit(1)


def _within(args: argparse.Namespace, groups: Groups) -> list[Fact]:
    """Samples and writes pairs within a modality."""
    paths = {"image": args.images, "caption": args.captions}
    if not any(paths.values()):
        raise UserError("Use --images, --captions or both: pairs come from embeddings.")
    _check_output(args, ("sts", "sis"))
    vectors = {kind: [group_vectors(path, kind, groups) for path in each]
               for kind, each in paths.items()}  # fmt: skip
    pairs = sample_within(
        groups,
        vectors["image"],
        vectors["caption"],
        seed=args.seed,
        neighbors=args.neighbors,
        drawn=args.draw,
    )
    facts = check_structure(pairs, groups, neighbors=args.neighbors, drawn=args.draw)
    settings = {"neighbors": args.neighbors, "draw": args.draw, "files": paths}
    return _report(args, groups, pairs, facts, settings)


def _across(args: argparse.Namespace, groups: Groups) -> list[Fact]:
    """Samples and writes pairs of captions and images."""
    _check_output(args, ("sits",))
    rated = read_folder(pathlib.Path(args.ratings_dir), args.split)
    rated = {rating: pairs for rating, pairs in rated.items() if rating != "sits"}
    pairs = sample_across(groups, rated, seed=args.seed, per_source=args.per_source)
    # Rated pairs are only sources: facts about them are left out.
    known = pairs | located_by_method(rated, groups)
    facts = [f for f in check_structure(known, groups, neighbors=1) if f.method in pairs]
    settings = {"per_source": args.per_source, "files": {"ratings": args.ratings_dir}}
    return _report(args, groups, pairs, facts, settings)


def _check(args: argparse.Namespace, groups: Groups) -> list[Fact]:
    """Reports on existing pairs."""
    rated = read_folder(pathlib.Path(args.pairs), args.split, need_scores=False)
    pairs = located_by_method(rated, groups)
    positive = None
    if (sits := rated.get("sits")) is not None and sits.scores is not None:
        positive = np.concatenate([pairs[method] for method in sits.by_method()])
        scores = np.concatenate([sits.scores[rows] for rows in sits.by_method().values()])
        positive = positive[scores >= THRESHOLDS["sits"]]
    facts = check_structure(
        pairs, groups, neighbors=args.neighbors, drawn=args.draw, positive=positive
    )
    print(format_facts(facts))
    return facts


def _report(
    args: argparse.Namespace,
    groups: Groups,
    pairs: Mapping[str, np.ndarray],
    facts: list[Fact],
    settings: Mapping[str, Any],
) -> list[Fact]:
    """Writes sampled pairs and prints facts about them, which it returns."""
    table = format_facts(facts)
    settings = {"split": args.split, "seed": args.seed, **settings}
    settings["pairs"] = {method: len(rows) for method, rows in pairs.items()}
    contents = file_contents(args.split, groups, pairs)
    contents[f"structure_{args.command}_{args.split}.txt"] = table + "\n"
    contents[f"sampling_{args.command}_{args.split}.json"] = json.dumps(settings, indent=2) + "\n"
    write_files(args.output, contents)
    print(table)
    print(f"\n{args.output}: {', '.join(contents)}")
    return facts


def _read_groups(args: argparse.Namespace) -> Groups:
    if args.dataset:
        place_of = data_prep.builder_class(args.dataset).data_dir_of
        data_dir = place_of(args.config, args.data_dir, args.manual_dir)
        return read_dataset_groups(args.dataset, args.config, data_dir, args.split)
    return read_groups(pathlib.Path(args.groups), args.split)


def _check_output(args: argparse.Namespace, ratings: tuple[str, ...]) -> None:
    """Raises an error, before any work, if the output is not writable or has ratings."""
    check_writable(args.output)
    for rating in ratings:
        path = pathlib.Path(args.output) / file_name(rating, args.split)
        if path.exists() and is_rated(path):
            raise UserError(f"{path} has ratings, which would be lost; use another --output.")


def _parse() -> argparse.Namespace:
    shared = argparse.ArgumentParser(add_help=False)
    place = shared.add_mutually_exclusive_group(required=True)
    place.add_argument("--groups", help="folder or csv file: which caption is of which image")
    place.add_argument("--dataset", choices=sorted(data_prep.BUILDERS), help="instead of --groups")
    shared.add_argument("--config", help="config of --dataset; by default one with captions")
    shared.add_argument("--data_dir", help="folder of prepared datasets; by default TFDS's own")
    shared.add_argument("--manual_dir", help="for files of your own: their folder")
    shared.add_argument("--split", default="test")
    sampling = argparse.ArgumentParser(add_help=False)
    sampling.add_argument("--output", required=True, help="folder for the pairs")
    sampling.add_argument("--seed", type=natural_int, default=0, help="seed of all draws")

    nearest = argparse.ArgumentParser(add_help=False)
    nearest.add_argument(
        "--neighbors", type=positive_int, default=NEIGHBORS, help="neighbors per item and encoder"
    )
    nearest.add_argument(
        "--draw",
        action="store_true",
        help="c2c_isim: random captions, as in the paper, instead of captions in turn, as released",
    )

    parser = make_parser("sample_pairs", __doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    within = commands.add_parser("within", parents=[shared, sampling, nearest])
    within.add_argument(
        "--images", type=name_list, default=[], help="embeddings of images, FILE,..."
    )
    within.add_argument(
        "--captions", type=name_list, default=[], help="captions' embeddings, FILE,..."
    )
    within.set_defaults(run=_within)
    across = commands.add_parser("across", parents=[shared, sampling])
    across.add_argument("--ratings_dir", required=True, help="folder of rated pairs")
    across.add_argument(
        "--per_source", type=positive_int, default=PER_SOURCE, help="pairs per image and rating"
    )
    across.set_defaults(run=_across)
    check = commands.add_parser("check", parents=[shared, nearest])
    check.add_argument("pairs", help="folder of sampled or released pairs")
    check.set_defaults(run=_check)
    args = parser.parse_args()
    check_config(parser, args)
    return args


if __name__ == "__main__":
    console.run(main)
