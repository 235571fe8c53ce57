r"""Draws the figures of the Crisscrossed Captions (CxC) paper for any rated pairs.

    python -m xmodal describe --ratings_dir=CXC --split=test --texts=COCO --output=FIGURES
    python -m xmodal describe --dataset=flickr8k --output=FIGURES

--ratings_dir is a folder of CxC's CSV files as released; --dataset a prepared dataset with scores.
Prints a table, and writes it in LaTeX. Writes PNG files: distributions of scores by rating and
sampling method, numbers of positive pairs, scores against cosines, the spread of the raters, and
pairs rated twice. Figures without data are left out, with a note on the data they need.

Cosines are those of --embeddings (an npz file as for `python -m xmodal.eval_main --embeddings`) or,
if texts are known, of word counts. Texts are the dataset's own, or those of CxC's captions in a
folder --texts with dataset_coco.json, captions_val2014.json or a table captions*.csv.
"""

import argparse
import dataclasses
import json
import pathlib
from collections.abc import Mapping

import numpy as np

import data_prep
from data_prep.command_line import check_config
from data_prep.cxc.caption_texts import read_caption_texts
from data_prep.cxc.cxc_files import THRESHOLDS
from xmodal.apps.analysis.ratings import prepared_ratings, rating_plots, score_statistics
from xmodal.apps.analysis.ratings.cosines import (
    Vectors,
    cosines_of_items,
    cosines_of_texts,
    count_words,
)
from xmodal.apps.analysis.ratings.rated_pairs import RatedPairs, read_folder
from xmodal.apps.arguments import make_parser
from xmodal.core import console
from xmodal.core.errors import NotPreparedError, UnexpectedFilesError, UserError
from xmodal.core.result_files import check_writable, write_files
from xmodal.core.text_table import align_columns, format_table

# Figure -> data that it needs.
_FIGURES = {
    "distributions": "scores",
    "positives": "a score from which pairs are positive; give it by --positive=RATING:SCORE",
    "cosines": "embeddings of the rated items, or their texts; see --embeddings and --texts",
    "rater_spread": "the scores of single raters",
    "rated_twice": "pairs of one kind that were rated in both orders",
}


@console.readable_errors(FileNotFoundError, NotPreparedError, UnexpectedFilesError)
def main() -> None:
    """Draws the figures that the command line requests, and prints a table."""
    args = _parse()
    check_writable(args.output)
    if args.dataset:
        place_of = data_prep.builder_class(args.dataset).data_dir_of
        args.data_dir = place_of(args.config, args.data_dir, args.manual_dir)
    rated = _read_ratings(args)
    positive = {**THRESHOLDS, **dict(args.positive)}
    summaries = score_statistics.summarize(rated, positive)
    table = score_statistics.tabulate_summaries(summaries)
    print(align_columns(table, right=range(2, len(table[0]))), flush=True)
    cosines, by = _cosines(args, rated)
    title = f"{args.dataset or pathlib.Path(args.ratings_dir).resolve().name}, {args.split}"
    figures = {
        "distributions": rating_plots.draw_distributions(rated, title=title),
        "positives": rating_plots.draw_positives(rated, positive, title=title),
        "cosines": rating_plots.draw_cosines(rated, cosines, by=by, title=title),
        "rater_spread": rating_plots.draw_rater_spread(rated, title=title),
        "rated_twice": rating_plots.draw_rated_twice(rated, title=title),
    }
    drawn = {name: png for name, png in figures.items() if png}
    rows = [dataclasses.asdict(each) for each in summaries]
    contents: dict[str, str | bytes] = {f"{name}.png": png for name, png in drawn.items()}
    contents["summary.tex"] = format_table(table, "latex") + "\n"
    contents["summary.json"] = json.dumps({"title": title, "rows": rows}, indent=2) + "\n"
    without = [name for name in figures if name not in drawn]
    write_files(args.output, contents, stale=[f"{name}.png" for name in without])
    for name in without:
        print(f"Without {name}: that needs {_FIGURES[name]}.")
    print(f"{args.output}: {', '.join(contents)}")


def _read_ratings(args: argparse.Namespace) -> dict[str, RatedPairs]:
    if args.dataset:
        return prepared_ratings.read_ratings(args.dataset, args.config, args.data_dir, args.split)
    return read_folder(pathlib.Path(args.ratings_dir), args.split)


def _cosines(
    args: argparse.Namespace, rated: Mapping[str, RatedPairs]
) -> tuple[dict[str, np.ndarray], str]:
    """Rating -> cosine of every pair, where any is known, and the name of the vectors."""
    if args.embeddings:
        found = _cosines_of(_read_embeddings(args.embeddings), rated)
        if not found:
            raise UserError(f"{args.embeddings} has both items of none of the rated pairs.")
        return found, pathlib.Path(args.embeddings).stem
    texts = _read_texts(args)
    found = {
        rating: cosines_of_texts(pairs)
        for rating, pairs in rated.items()
        if pairs.texts is not None
    }
    if texts:
        captions = Vectors(np.array(list(texts)), count_words(list(texts.values())))
        found |= _cosines_of({"caption": captions}, rated)
    return found, "word counts"


def _cosines_of(
    vectors: Mapping[str, Vectors], rated: Mapping[str, RatedPairs]
) -> dict[str, np.ndarray]:
    found = {
        rating: cosines_of_items(pairs, vectors)
        for rating, pairs in rated.items()
        if pairs.left_ids is not None
    }
    return {rating: values for rating, values in found.items() if np.isfinite(values).any()}


def _read_embeddings(path: str) -> dict[str, Vectors]:
    from xmodal.evals.scores.arrays import load_embeddings  # Imports JAX.

    saved = load_embeddings(path)
    found = {
        "image": (saved.image_ids, saved.images),
        "caption": (saved.caption_ids, saved.captions),
    }
    if any(vectors is not None and vectors.ndim > 2 for _, vectors in found.values()):
        raise UserError(f"{path} has several embeddings per item; save one, say their mean.")
    return {kind: Vectors(*each) for kind, each in found.items() if each[0] is not None}


def _read_texts(args: argparse.Namespace) -> dict[int, str]:
    if args.texts:
        return read_caption_texts(pathlib.Path(args.texts))
    if args.dataset:
        return prepared_ratings.read_texts(args.dataset, args.data_dir, args.split)
    return {}


def _parse() -> argparse.Namespace:
    parser = make_parser("describe", __doc__)
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument("--ratings_dir", help="folder of the released CSV files")
    source.add_argument("--dataset", choices=sorted(data_prep.BUILDERS), help="a prepared dataset")
    parser.add_argument("--config", help="config of --dataset; by default all with scores")
    parser.add_argument("--data_dir", help="folder of prepared datasets; by default TFDS's own")
    parser.add_argument("--manual_dir", help="for files of your own: their folder")
    parser.add_argument("--split", default="test")
    parser.add_argument("--output", required=True, help="folder for the figures")
    parser.add_argument("--embeddings", help="npz file, for cosines")
    parser.add_argument("--texts", help="folder with the texts of COCO's captions, for cosines")
    parser.add_argument(
        "--positive",
        type=_thresholds,
        default=[],
        metavar="RATING:SCORE,...",
        help="scores from which pairs are positive; known: "
        + ", ".join(f"{rating}:{score:g}" for rating, score in THRESHOLDS.items()),
    )
    args = parser.parse_args()
    check_config(parser, args)
    return args


def _thresholds(text: str) -> list[tuple[str, float]]:
    try:
        return [
            (rating, float(score))
            for rating, score in (part.split(":") for part in text.split(","))
        ]
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not RATING:SCORE,...") from None


if __name__ == "__main__":
    console.run(main)
