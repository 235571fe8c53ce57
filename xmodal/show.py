r"""A page of captions: the words that a model attends to, and the pictures that it finds.

    python -m xmodal.show --models=runs/cmcm,runs/cmca --count=20 --output=captions.html

Figures 6 and 7 of the CMCM paper, for any models with the dataset of the first one: random captions
of a split, for every model its words shaded by their weights (if it has attention), and the top
pictures of the whole split, the caption's own one framed. The page holds all its pictures.
"""

import argparse
import base64
import html
import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from xmodal.config import UserError

if TYPE_CHECKING:
    from xmodal.api.model import Model
    from xmodal.data import EvalSplit

_TOP = 5
_STYLE = """
body { font: 15px/1.5 sans-serif; max-width: 62em; margin: 2em auto; color: #222 }
section { border-top: 1px solid #ddd; padding: 1em 0 }
h2 { font-size: 1em; margin: 0 0 .5em } h3 { font-size: .85em; margin: .8em 0 .2em; color: #666 }
img { height: 120px; margin: 0 6px 0 0; border: 4px solid transparent }
img.own { border-color: #2e7d32 }
span { padding: 2px 3px; border-radius: 3px }
"""


def make_page(models: "Sequence[Model]", split: "EvalSplit", count: int, seed: int = 0) -> str:
    """Returns the page as HTML.

    Args:
      models: with a text side; those without an image side show no pictures.
      split: whose captions and images are shown.
      count: captions to draw.
      seed: of the draw.
    """
    generator = np.random.default_rng(seed)
    captions = len(split.caption_ids)
    rows = np.sort(generator.choice(captions, min(count, captions), replace=False))
    texts = [split.caption_texts[row] for row in rows]
    parts: list[list[str]] = [[] for _ in rows]
    for model in models:
        attention = _attention(model, texts)
        best = _find_best(model, texts, split)
        for number, row in enumerate(rows):
            parts[number].append(f"<h3>{html.escape(model.name)}</h3>")
            if attention is not None:
                parts[number].append(f"<p>{shade(attention[number])}</p>")
            if best is not None:
                own = int(split.caption_rows[row])
                parts[number].append(_show(split.pictures(best[number]), best[number] == own))
    sections = [
        f"<section><h2>{html.escape(text)}</h2>\n{''.join(part)}\n</section>"
        for text, part in zip(texts, parts, strict=True)
    ]
    title = html.escape(f"{split.name}, {split.split} split")
    return (
        f'<!doctype html>\n<html lang="en"><meta charset="utf-8"><title>{title}</title>\n'
        f"<style>{_STYLE}</style>\n<h1>{title}</h1>\n<p>Words: weights of the attention. Pictures: "
        f"the top {_TOP} of {len(split.image_ids):,}, the caption's own one framed.</p>\n"
        + "\n".join(sections)
        + "</html>\n"
    )


def shade(words: Sequence[tuple[str, float]]) -> str:
    """Returns words as HTML, each with its weight and shaded by it; the heaviest one is darkest."""
    most = max((weight for _, weight in words), default=0.0) or 1.0
    return " ".join(
        f'<span style="background: rgba(47, 111, 171, {0.8 * weight / most:.2f})" '
        f'title="{weight:.3f}">{html.escape(word)}</span>'
        for word, weight in words
    )


def _attention(model: "Model", texts: Sequence[str]) -> list[list[tuple[str, float]]] | None:
    try:
        return model.attend(texts)
    except UserError:  # of models without attention the pictures are shown alone
        return None


def _find_best(model: "Model", texts: Sequence[str], split: "EvalSplit") -> np.ndarray | None:
    """Positions of the best images of every text, int [N, 5]."""
    if "image" not in model.sides or "image" not in split.sides:
        return None
    images = model.embed_images(split.pictures(np.arange(len(split.image_ids))).tolist())
    scores = model.similarity(model.embed_texts(texts), images)
    return np.argsort(-scores, axis=1, kind="stable")[:, :_TOP]


def _show(pictures: np.ndarray, is_own: np.ndarray) -> str:
    found = []
    for picture, own in zip(pictures, is_own, strict=True):
        kind = "png" if picture.startswith(b"\x89PNG") else "jpeg"
        data = base64.b64encode(picture).decode()
        mark = ' class="own"' if own else ""
        found.append(f'<img{mark} src="data:image/{kind};base64,{data}">')
    return f"<div>{''.join(found)}</div>"


def main() -> None:
    """Writes the page of the models that the command line names."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--models", required=True, help="runs, A,B; the first one's data is shown")
    parser.add_argument("--split", default="test", help="of the data")
    parser.add_argument("--count", type=int, default=20, help="captions")
    parser.add_argument("--seed", type=int, default=0, help="of the choice of captions")
    parser.add_argument("--output", required=True, help="the page, an .html file")
    args = parser.parse_args()
    # TensorFlow and JAX are slow to import, --help is not.
    from xmodal import data
    from xmodal.api.loading import load
    from xmodal.evals.reports.files import check_writable, write_files
    from xmodal.training import checkpoints

    try:
        folder, name = os.path.split(args.output)
        check_writable(folder or ".")
        names = [each for each in args.models.split(",") if each]
        config = checkpoints.load_run(names[0])
        split = data.eval_split(config.data.to_dict(), split=args.split)
        page = make_page([load(each) for each in names], split, args.count, args.seed)
        write_files(folder or ".", {name: page})
    except UserError as error:
        sys.exit(f"Error: {error}")
    print(f"{args.output}: {min(args.count, len(split.caption_ids))} captions")


if __name__ == "__main__":
    main()
