"""Sorts pictures into classes by their names, without training.

    python -m xmodal classify PHOTOS --model=weights/clip --classes=dog,beach,city --output=sorted

writes classify.csv (file, class, second class, cosine, margin) and classify.html, which shows every
class with its least certain pictures first. It classifies as the evaluator zero_shot does.
--classes may name a text file, one class per line.

The margin is the cosine with the class minus that with the second one. It is no probability: models
learn no scale for lists of classes, and a softmax with the scale of their loss is nearly certain of
everything. Compare margins of pictures, not of models or lists.
"""

import pathlib

import numpy as np

from xmodal.apps.arguments import make_parser, name_list
from xmodal.core import console
from xmodal.core.errors import UserError
from xmodal.core.files import check_writable, csv_text, write_files

_SHOWN = 60  # Pictures of a class on the page.
_COLUMNS = ("file", "class", "second_class", "cosine", "margin")
_NOTE = "Margin: the cosine with the class minus that with the next one; it is no probability."


@console.readable_errors()
def main() -> None:
    """Classifies the pictures that the command line names."""
    parser = make_parser("classify", __doc__)
    parser.add_argument("images", help="a folder of pictures, or a list of files")
    parser.add_argument("--classes", required=True, type=name_list, help="names, or a .txt file")
    parser.add_argument("--model", required=True, help="a run, bundle or converted weights")
    prompts = "prompts with {}, or a set of zero_shot"
    parser.add_argument("--templates", type=name_list, default=["photo"], help=prompts)
    parser.add_argument("--output", required=True, help="folder of the page and the table")
    args = parser.parse_args()
    # Slow to import; --help should be fast.
    from xmodal.api.loading import load
    from xmodal.api.search.formats import show_item
    from xmodal.api.search.gallery import embed_items
    from xmodal.api.search.items import from_images
    from xmodal.api.search.pictures import open_upright
    from xmodal.core.page import Group, Page, PageItem, PageRow, Section
    from xmodal.core.reused_memory import reuse_memory
    from xmodal.evals.evaluators.classification import read_lines, to_unit
    from xmodal.evals.evaluators.classifiers import ZeroShotOptions

    classes = list(dict.fromkeys(read_lines(args.classes)))
    if len(classes) < 2:
        raise UserError(f"--classes names {classes}; give two or more, separated by commas.")
    check_writable(args.output)
    options = ZeroShotOptions("zero_shot", templates=tuple(args.templates))
    options.find_prompts("--templates")
    items = from_images(args.images)
    reuse_memory()
    model = load(args.model)

    def unit(vectors: np.ndarray) -> np.ndarray:
        return to_unit(np.asarray(vectors), model.name, "classify")

    prototypes = options.embed_classes(classes, model.embed_texts, unit)
    gallery = embed_items(model, "image", items)
    scores = unit(gallery.vectors) @ prototypes.T
    order = np.argsort(-scores, axis=1, kind="stable")[:, :2]
    cosines = np.take_along_axis(scores, order, axis=1)
    margins, groups, rows = cosines[:, 0] - cosines[:, 1], [], [_COLUMNS]
    for number, name in enumerate(classes):
        own = np.flatnonzero(order[:, 0] == number)
        shown: list[PageItem] = []
        for row in own[np.argsort(margins[own], kind="stable")]:
            path, other, margin = gallery.names[row], classes[order[row, 1]], f"{margins[row]:.4f}"
            rows.append((path, name, other, f"{cosines[row, 0]:.4f}", margin))
            if len(shown) < _SHOWN:
                picture = open_upright(pathlib.Path(path), side=320)
                shown.append(show_item(path, picture, [f"{margin} before {other}"]))
        sections = [Section(f"Least certain first, at most {_SHOWN}", [PageRow(shown)])]
        groups.append(Group(f"{name}: {len(own):,}", sections))
    page = Page(f"{len(order):,} pictures in {len(classes)} classes", groups, [_NOTE])
    files = {"classify.html": page.to_html(), "classify.csv": csv_text(rows)}
    write_files(args.output, files)
    lost = f"; {len(gallery.left_out):,} cannot be read" * bool(gallery.left_out)
    print(f"{page.title}{lost}: {args.output}/classify.html")


if __name__ == "__main__":
    console.run(main)
