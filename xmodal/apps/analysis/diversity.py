r"""How differently models retrieve, as section 3.1 of ECCV Caption asks of machine annotators.

    python -m xmodal diversity --models=A.npz,B.json,third=C.npz --annotations=LABELS --output=OUT
    python -m xmodal diversity --models=A.npz,B.npz --dataset=NAME --output=OUT

For every two models, the mean over all queries of Kendall's tau between their first 25 items; and
the mean rank that a model gives to the first item of another, in the whole gallery. An item that a
model does not list has the rank after its last item.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from xmodal.apps import arguments
from xmodal.apps.analysis.agree import tau_b
from xmodal.apps.analysis.canvas import new_figure, to_bytes
from xmodal.core import console
from xmodal.core.files import check_writable, format_json, write_files
from xmodal.core.text_table import Rows, format_document

if TYPE_CHECKING:
    from xmodal.evals.scores.sources import Ids, Source

_NAMES = {"i2t": "captions of an image", "t2i": "images of a caption"}
_HOW_TO_READ = (
    "Means over all queries. Tau: Kendall's tau-b between the first {} items of two models, over "
    "all items that either lists; items that a model does not list are tied after its last one "
    "(at 25 items, -0.68 if no item is shared). Mean rank: of the first item of the row's model "
    "under the column's model, in the whole gallery."
)


@console.readable_errors()
def main() -> None:
    """Compares the models that the command line names."""
    parser = arguments.make_parser("diversity", __doc__)
    parser.add_argument("--models", type=arguments.name_list, required=True, help="[NAME=]FILE,...")
    choice = parser.add_mutually_exclusive_group(required=True)
    choice.add_argument("--annotations", help="folder of label files, whose items are ranked")
    arguments.add_dataset(parser, "a prepared dataset, whose items are ranked", choice=choice)
    arguments.add_texts(parser, similarity="for embeddings whose file names none")
    parser.add_argument("--top", type=arguments.positive_int, default=25, help="items to compare")
    parser.add_argument("--output", required=True, help="folder for the tables and the heat map")
    args = parser.parse_args()
    check_writable(args.output)
    # They import JAX.
    from xmodal.api.search.items import open_split
    from xmodal.apps.model_files import read_source
    from xmodal.evals.labels.annotations import read_annotations

    paths, labels = arguments.read_names(args.models), args.annotations
    models = {name: read_source(path, args.similarity) for name, path in paths.items()}
    section = arguments.dataset_section(args)
    split: Any = read_annotations(labels, args.split) if labels else open_split(section)
    print(write_diversity(models, split, args.output, args.top), flush=True)


def write_diversity(models: Mapping[str, "Source"], split: "Ids", output: str, top: int) -> str:
    """Writes `diversity.json`, `.md`, `.tex` and `.png`; returns the Markdown.

    Args:
      models: name -> source; directions that some model lacks are left out.
      split: the queries and galleries.
      output: folder to write to.
      top: items of every query to compare.
    """
    names, sources = [*models], [*models.values()]
    common = [x for x in _NAMES if all(x in getattr(y, "directions", _NAMES) for y in sources)]
    found = {direction: compute_diversity(sources, split, direction, top) for direction in common}
    parts: list[str | Rows] = ["# Diversity of models", _HOW_TO_READ.format(top)]
    saved: dict[str, Any] = {"models": names, "top": top}
    for direction, numbers in found.items():
        saved[direction] = {name: values.tolist() for name, values in numbers.items()}
        for name, values in numbers.items():
            rows = zip(names, np.char.mod("%.2f", values).tolist(), strict=True)
            table = [["", *names], *([model, *cells] for model, cells in rows)]
            parts += [f"## {name.capitalize()}, {_NAMES[direction]}", table]
    contents: dict[str, Any] = {
        "diversity.json": format_json(saved),
        "diversity.md": format_document(parts),
        "diversity.tex": format_document(parts, "latex"),
        "diversity.png": draw_diversity(names, found),
    }
    write_files(output, contents)
    return contents["diversity.md"]


def compute_diversity(
    sources: Sequence["Source"], split: "Ids", direction: str, top: int
) -> dict[str, np.ndarray]:
    """Compares M models on the queries of a direction, by blocks of queries.

    Args:
      sources: the models.
      split: the queries and galleries.
      direction: `i2t` or `t2i`.
      top: items of every query whose order is compared.

    Returns:
      float64 [M, M] each: `tau`, the mean of `tau_of_lists`; and `mean rank`, from 1, of the first
      item of the model in the row under the model in the column.
    """
    from xmodal.apps.model_files import open_queries  # Imports JAX.

    queries = np.asarray(split.image_ids if direction == "i2t" else split.caption_ids)
    scores = [open_queries(each, split, direction, queries) for each in sources]
    lists, tau = [each.best_items(top) for each in scores], np.eye(len(scores))
    blocks = np.array_split(np.arange(len(queries)), len(queries) // 128 + 1)
    for i, j in zip(*np.triu_indices(len(lists), 1), strict=True):
        taus = [tau_of_lists(lists[i][block], lists[j][block]) for block in blocks]
        tau[i, j] = tau[j, i] = np.nanmean(np.concatenate(taus))
    first = np.stack([each[:, 0] for each in lists])
    return {"tau": tau, "mean rank": np.stack([_mean_ranks(x, first) for x in scores], axis=1)}


def _mean_ranks(scores: Any, items: np.ndarray) -> np.ndarray:
    """The mean ranks by `Scores` of M items of every query [M, Q], float64 [M]; -1 is none."""
    ranks = np.full(items.shape, np.nan)
    for at, rows in scores.blocks(np.arange(items.shape[1])):
        for own, found in zip(items[:, at], ranks[:, at], strict=True):
            found[:] = 1 + np.sum(rows > np.take_along_axis(rows, own[:, None], 1), axis=1)
    return np.nanmean(np.where(items < 0, np.nan, ranks), axis=1)


def tau_of_lists(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Returns tau-b between two ranked lists of every query, float64 [Q]; NaN if one is empty.

    The paper does not say how an item counts that only one model lists. Here, both lists rank all
    items of either, and those that a list lacks are tied behind its last, as in Fagin, Kumar and
    Sivakumar (Comparing top k lists, 2003).

    Args:
      first: int [Q, K], different items, best first; -1 after the last of fewer.
      second: int [Q, K], the other list of the same query.
    """
    depth, items, ranks = first.shape[1], np.concatenate([first, second], axis=1), []
    for each in (first, second):
        same = items[:, :, None] == each[:, None, :]
        ranks.append(np.where(same.any(axis=2), same.argmax(axis=2), depth))
    left_out = items < 0
    left_out[:, depth:] |= ranks[0][:, depth:] < depth  # An item of both lists counts once.
    return tau_b(np.where(left_out[..., None], np.nan, np.stack(ranks, axis=-1)))[:, 0, 1]


def draw_diversity(names: Sequence[str], found: Mapping[str, Mapping[str, np.ndarray]]) -> bytes:
    """Returns a PNG of heat maps: a row per direction, tau on the left, mean ranks on the right."""
    size = 1.4 + 0.6 * len(names)
    with new_figure(2 * size + 1, size * len(found)) as figure:
        rows = figure.subplots(len(found), 2, squeeze=False)
        for row, (direction, numbers) in zip(rows, found.items(), strict=True):
            for axes, (name, values) in zip(row, numbers.items(), strict=True):
                # Small ranks would look alike beside those of a large gallery.
                axes.imshow(values if name == "tau" else -np.log(values), cmap="Blues", alpha=0.6)
                axes.set_title(f"{name}, {_NAMES[direction]}")
                axes.set_xticks(range(len(names)), names, rotation=45, ha="right")
                axes.set_yticks(range(len(names)), names)
                for (y, x), value in np.ndenumerate(values):
                    text = f"{value:.2f}" if value < 100 else f"{value:,.0f}"
                    axes.text(x, y, text, ha="center", va="center", fontsize=8)
        return to_bytes(figure)


if __name__ == "__main__":
    console.run(main)
