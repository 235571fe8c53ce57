r"""Draws the figures of the Crisscrossed Captions (CxC) paper for any rated pairs.

    python -m xmodal describe --ratings_dir=CXC --split=test --texts=COCO --output=FIGURES
    python -m xmodal describe --dataset=flickr8k --output=FIGURES

--ratings_dir is a folder of CxC's CSV files as released, with *_raw.csv for the spread of the
raters; --dataset a prepared dataset with scores.
Prints a table, and writes it in LaTeX. Writes PNG files: distributions of scores by rating and
sampling method, numbers of positive pairs, scores against cosines, and the spread of the raters.
Figures without data are left out, with a note on the data they need.

Cosines are those of word counts. Texts are the dataset's own, or those of CxC's captions in a
folder --texts with dataset_coco.json, captions_val2014.json or a table captions*.csv.
"""

import dataclasses
import json
import pathlib
from collections.abc import Mapping

import numpy as np

from data_prep.cxc.caption_texts import read_caption_texts
from data_prep.cxc.cxc_files import THRESHOLDS
from xmodal.apps.analysis.ratings import rated_pairs, rating_plots, score_statistics
from xmodal.apps.analysis.ratings.rated_pairs import RatedPairs
from xmodal.apps.arguments import add_dataset, add_texts, make_parser, prepared_dir
from xmodal.core import console
from xmodal.core.files import check_writable, write_files
from xmodal.core.text_table import align_columns, format_table

# Figure -> data that it needs.
_FIGURES = {
    "distributions": "scores",
    "positives": "a rating of CxC: sts, sis or sits",
    "cosines": "the texts of the rated items; see --texts",
    "rater_spread": "the scores of single raters, for CxC *_raw.csv",
}


@console.readable_errors()
def main() -> None:
    """Draws the figures that the command line requests, and prints a table."""
    parser = make_parser("describe", __doc__)
    place = parser.add_mutually_exclusive_group(required=True)
    add_texts(place, ratings_dir="folder of the released CSV files")
    add_dataset(parser, "a prepared dataset, instead of --ratings_dir", config=None, choice=place)
    add_texts(parser, texts="folder with the texts of COCO's captions, for cosines")
    parser.add_argument("--output", required=True, help="folder for the figures")
    args = parser.parse_args()
    check_writable(args.output)
    texts = read_caption_texts(pathlib.Path(args.texts)) if args.texts else {}
    if args.dataset:
        data_dir = prepared_dir(args)
        rated = rated_pairs.read_prepared(args.dataset, args.config, data_dir, args.split)
        texts = texts or rated_pairs.read_texts(args.dataset, data_dir, args.split)
    else:
        rated = rated_pairs.read_folder(pathlib.Path(args.ratings_dir), args.split)
    summaries = score_statistics.summarize(rated, THRESHOLDS)
    table = score_statistics.tabulate_summaries(summaries)
    print(align_columns(table, right=range(2, len(table[0]))), flush=True)
    raters = [each.rater_scores for each in rated.values() if each.rater_scores is not None]
    if raters:
        print(f"{sum(np.isfinite(each).sum() for each in raters):,} judgments by single raters")
    title = f"{args.dataset or pathlib.Path(args.ratings_dir).resolve().name}, {args.split}"
    figures = {
        "distributions": rating_plots.draw_distributions(rated, title=title),
        "positives": rating_plots.draw_positives(rated, THRESHOLDS, title=title),
        "cosines": rating_plots.draw_cosines(rated, _cosines(texts, rated), title=title),
        "rater_spread": rating_plots.draw_rater_spread(rated, title=title),
    }
    contents: dict[str, str | bytes] = {f"{name}.png": png for name, png in figures.items() if png}
    rows = [dataclasses.asdict(each) for each in summaries]
    contents["summary.tex"] = format_table(table, "latex") + "\n"
    contents["summary.json"] = json.dumps({"title": title, "rows": rows}, indent=2) + "\n"
    without = [name for name, png in figures.items() if not png]
    write_files(args.output, contents, stale=[f"{name}.png" for name in without])
    for name in without:
        print(f"Without {name}: that needs {_FIGURES[name]}.")
    print(f"{args.output}: {', '.join(contents)}")


def _cosines(texts: Mapping[int, str], rated: Mapping[str, RatedPairs]) -> dict[str, np.ndarray]:
    """Rating -> cosine of the word counts of every pair, where texts are known."""
    found = {}
    for rating, pairs in rated.items():
        sentences = pairs.texts
        if sentences is None and rating == "sts" and texts:
            ids = np.stack([pairs.left_ids, pairs.right_ids], axis=1).tolist()
            sentences = np.array([[texts.get(each, "") for each in pair] for pair in ids], object)
        if sentences is not None:
            found[rating] = score_statistics.word_cosines(sentences)
    return found


if __name__ == "__main__":
    console.run(main)
