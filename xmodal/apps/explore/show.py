r"""A page of captions: the words that a model attends to, and the pictures that it retrieves.

    python -m xmodal show --model=runs/cmcm,runs/cmca --count=20 --output=captions.html
    python -m xmodal show --model=ViT-B-32.pt --dataset=captioned_images --manual_dir=FOLDER \
        --output=captions.html

Figures 6 and 7 of the CMCM paper, for any models on a dataset, by default that of the first model,
which then has to be a run: random captions of a split and, for every model, the words shaded by
their weights (if it has attention), and the top pictures of the whole split, with the own one
framed, or added with its rank if it is not among them. The page embeds its pictures.
"""

import argparse
import contextlib
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, cast

import numpy as np

from xmodal.apps.arguments import (
    add_dataset,
    dataset_section,
    make_parser,
    name_list,
    natural_int,
    positive_int,
)
from xmodal.core import console
from xmodal.core.errors import UserError
from xmodal.core.page import Group, Page, PageItem, PageRow, Section
from xmodal.evals.labels.split import name_image

if TYPE_CHECKING:
    from xmodal.api.model import Model
    from xmodal.data import EvalSplit
    from xmodal.evals.scores.embed import Items

_TOP = 5
_DEEP = 1000  # A rank beyond this one is not looked for.


def make_page(models: "Sequence[Model]", split: "EvalSplit", count: int, seed: int = 0) -> Page:
    """Returns the page.

    Args:
      models: models with a text tower; those without an image tower show no pictures.
      split: split whose captions and images are shown.
      count: number of captions to draw.
      seed: seed of the draw.
    """
    generator = np.random.default_rng(seed)
    captions, total = len(split.caption_ids), len(split.image_ids)
    rows = np.sort(generator.choice(captions, min(count, captions), replace=False))
    texts, own = [split.caption_texts[row] for row in rows], split.caption_rows[rows]
    shown: list[list[PageRow]] = [[] for _ in rows]
    notes: dict[str, None] = {}
    for model in models:
        attention, best = None, _find_best(model, texts, split)
        with contextlib.suppress(UserError):  # Models without attention only show pictures.
            attention = model.attend(texts)
        if attention is not None:
            notes["Words are shaded by their attention weights."] = None
        if best is not None:
            without = ", without its cross-encoder" if model.pairs is not None else ""
            notes[f"Pictures are the top {min(_TOP, total)} of {total:,}, own ones framed."] = None
            notes[f"{model.name} ranks by {model.similarity_name}{without}."] = None
        for number, place in enumerate(own):
            found: list[list[PageItem]] = []
            if attention is not None:
                found.append([PageItem(words=attention[number])])
            if best is not None:
                found.append(_show(split, best[number], int(place)))
            shown[number] += map(PageRow, found, [model.name] + [""] * len(found))
    sections = [Section(text, found) for text, found in zip(texts, shown, strict=True)]
    return Page(f"{split.title}, {split.split} split", [Group("", sections)], [*notes])


def _find_best(model: "Model", texts: Sequence[str], split: "EvalSplit") -> list[list[int]] | None:
    """Rows of the best images of every text, up to `_DEEP`; None without images."""
    from xmodal.api.search.gallery import embed
    from xmodal.api.search.index import Index
    from xmodal.api.search.items import from_split

    if "image" not in model.modalities or "image" not in split.modalities:
        return None
    images = from_split(split, features=model.takes_features)
    index = Index.build(model, images=images, method="exact")
    found = index.query_vectors(embed(model, "caption", texts), "caption", top=_DEEP)
    return [[hit.row for hit in hits] for hits in found]


def _show(split: "EvalSplit", best: Sequence[int], own: int) -> list[PageItem]:
    """The top images and the caption's own, each with its rank."""
    shown = [*best[:_TOP], *([] if own in best[:_TOP] else [own])]
    items, total, pictures = [], len(split.image_ids), split.pictures(np.array(shown))
    for rank, (place, picture) in enumerate(zip(shown, pictures, strict=True), 1):
        note, mark = f"{rank}", "own" if place == own else ""
        if rank > _TOP:
            note = f"rank {best.index(own) + 1:,}" if own in best else f"after rank {len(best):,}"
            note += f" of {total:,}"
        alt = name_image(cast("Items", split), split.image_ids[place])
        items.append(PageItem(picture=picture, alt=alt, notes=[note], mark=mark))
    return items


def _open_split(args: argparse.Namespace, first: str) -> "EvalSplit":
    from xmodal import data
    from xmodal.api.run_splits import read_run_data
    from xmodal.api.search.items import open_split

    if args.dataset:
        return open_split(dataset_section(args))
    try:
        section = read_run_data(first)
    except UserError as error:
        raise UserError(f"{error} Other models are shown on a --dataset.") from error
    return data.eval_split(section, split=args.split)


@console.readable_errors()
def main() -> None:
    """Writes the page of the models that the command line names."""
    parser = make_parser("show", __doc__)
    parser.add_argument(
        "--model", type=name_list, required=True, help="A,B: runs, bundles or weights"
    )
    add_dataset(parser, "by default, that of the first run")
    parser.add_argument("--count", type=positive_int, default=20, help="captions")
    parser.add_argument("--seed", type=natural_int, default=0, help="seed of their choice")
    parser.add_argument("--output", required=True, help="the page, an .html file")
    args = parser.parse_args()
    # JAX is slow to import, but --help should be fast.
    from xmodal.api.loading import load
    from xmodal.core.files import check_writable, write_file

    check_writable(os.path.dirname(args.output) or ".")
    split = _open_split(args, args.model[0])
    models = [load(each) for each in args.model]
    page = make_page(models, split, args.count, args.seed)
    write_file(args.output, page.to_html())
    print(f"{args.output}: {min(args.count, len(split.caption_ids))} captions")
    print(*page.notes, sep="\n")


if __name__ == "__main__":
    console.run(main)
