"""Builds indexes of images and captions, and searches them.

    python -m xmodal search PHOTOS
    python -m xmodal search build --model=RUN --images=PHOTOS --output=indexes/photos
    python -m xmodal search query --index=indexes/photos "a dog on a beach"
    python -m xmodal search query --index=indexes/photos --image=dog.jpg --format=html \
        --output=dogs.html
    python -m xmodal search duplicates indexes/photos --output=duplicates
    python -m xmodal search serve --index=indexes/photos --open

The first builds the index of a folder or brings it up to date, and serves it. A folder that is
named like a command is ./NAME. A model is a run, a bundle or a folder of converted weights. Items
are pictures (a folder, a list of files, or features in a .npy file), captions (one per line), or
the items of a prepared dataset.
"""

import argparse
import contextlib
import pathlib
import sys
from typing import TYPE_CHECKING, Any

from xmodal.api.search import KINDS, METHODS, MODALITIES
from xmodal.apps import search_folder
from xmodal.apps.arguments import (
    add_dataset,
    dataset_section,
    make_parser,
    positive_int,
    require_extra,
)
from xmodal.core import console
from xmodal.core.config import lookup
from xmodal.core.errors import UserError
from xmodal.core.files import check_writable, write_files

# JAX and Pillow are slow to import, but --help and errors in arguments should be fast.
if TYPE_CHECKING:
    import PIL.Image

    from xmodal.api.search.index import Hit, Index

FORMATS = ("table", "json", "html")


@console.readable_errors()
def main() -> None:
    """Runs the command that the arguments name."""
    args = _parse()
    commands = {"build": _build, "query": _query, "serve": _serve, "duplicates": _duplicates}
    commands["folder"] = _search_folder
    commands[args.command](args)


def _build(args: argparse.Namespace) -> None:
    from xmodal.core import processes

    if bool(args.dataset) == bool(args.images or args.captions):
        raise UserError("Use --images and --captions, or --dataset, which provides both.")
    with processes.connected({f"--{name}": value for name, value in vars(args).items()}):
        _build_together(args)


def _build_together(args: argparse.Namespace) -> None:
    import jax

    from xmodal.api.loading import load
    from xmodal.api.search import items as items_lib
    from xmodal.api.search.formats import describe_index
    from xmodal.api.search.index import Index
    from xmodal.core import processes
    from xmodal.pretrained.folder import check_new

    check_new(args.output)
    readers = {"image": items_lib.from_images, "caption": items_lib.from_captions}
    given = {"image": args.images, "caption": args.captions}
    items = {kind: readers[kind](place) for kind, place in given.items() if place}
    model = load(args.model, step=args.step, devices=jax.devices())
    if args.dataset:
        found = items_lib.from_dataset(dataset_section(args), model.images)
        items = {kind: each for kind, each in found.items() if MODALITIES[kind] in model.modalities}
    named: Any = {f"{kind}s": each for kind, each in items.items()}
    index = Index.build(model, **named, method=args.method, recall=args.recall)

    def write() -> None:
        index.save(args.output)
        print(describe_index(index, args.output))

    processes.first_does("write the index", write)


def _query(args: argparse.Namespace) -> None:
    if args.format == "html" and not args.output:
        raise UserError("--format=html needs --output, the file for the page.")
    from xmodal.api.search import formats
    from xmodal.api.search import items as items_lib
    from xmodal.api.search.index import Index
    from xmodal.api.search.pictures import ItemPictures, open_upright
    from xmodal.core.files import write_file

    image, asked = args.image, None
    if image is not None and image.endswith(".npy"):
        image = items_lib.read_array(pathlib.Path(image))
    elif image is not None:
        asked = open_upright(pathlib.Path(image))
    index = Index.open(args.index, model=args.model)
    index.is_corrected = not args.uncorrected
    options = {name: getattr(args, name) for name in ("top", "find", "exact")}
    hits = index.query(args.text, image=image, **options)
    notes = index.describe_query(args.text) + index.notes
    query = args.text if args.image is None else args.image
    find = args.find or next(kind for kind in KINDS if kind in index.galleries)
    missing: list[str] = []
    if args.format == "html":
        pictures = ItemPictures(index.galleries[find])

        def show(hit: "Hit") -> "PIL.Image.Image | None":
            if find == "caption" or not index.shows_pictures:
                return None
            if source := pictures.find(hit.row):
                return open_upright(source)
            missing.append(hit.item)
            return None

        title = query if args.image is None else pathlib.Path(query).name
        text = formats.as_page(title, hits, show, asked, notes).to_html()
    elif args.format == "table":
        text = formats.as_table(hits, notes)
    else:
        text = formats.as_json(query, hits, notes)
    # Names of files need not be UTF-8; their bytes are escaped, as JSON does it.
    encoded = text.encode(errors="backslashreplace")
    if not args.output:
        print(encoded.decode(), end="")
        return
    write_file(args.output, encoded)
    print(f"{len(hits):,} hits in {args.output}")
    if missing:
        print(f"pictures that were moved or deleted: {len(missing):,}, such as {missing[0]}")


def _duplicates(args: argparse.Namespace) -> None:
    from xmodal.api.search.index import Index
    from xmodal.apps.duplicates import make_duplicates

    check_writable(args.output)
    gallery = lookup("the items of the index", "image", Index.open(args.index).galleries)
    line, files = make_duplicates(gallery, args.threshold)
    write_files(args.output, files)
    print(f"{line}: {args.output}/duplicates.html")


def _serve(args: argparse.Namespace) -> None:
    require_extra("search", "starlette", "uvicorn")
    from xmodal.api.search.index import Index

    index = Index.open(args.index, model=args.model)
    _serve_index(index, args)


def _search_folder(args: argparse.Namespace) -> None:
    if not args.no_serve:
        require_extra("search", "starlette", "uvicorn")
    index = search_folder.update(args)
    if not args.no_serve:
        _serve_index(index, args)


def _serve_index(index: "Index", args: argparse.Namespace) -> None:
    from xmodal.api.search.server import serve

    index.is_corrected = not args.uncorrected
    name = getattr(args, "folder", args.index)
    with contextlib.suppress(KeyboardInterrupt):
        serve(index, name, args.host, args.port, args.url, browse=args.open)


def _parse() -> argparse.Namespace:
    parser = make_parser("search", "Finds images and captions by a text or a picture.")
    commands = parser.add_subparsers(dest="command", required=True)
    build = commands.add_parser("build", help="embed items and write an index")
    build.add_argument("--model", required=True, help="a run, bundle or converted weights")
    build.add_argument("--step", default="best", help="a run's step: a number, best or latest")
    build.add_argument("--images", help="a folder, a list of files, or features in a .npy file")
    build.add_argument("--captions", help="a text file, one caption per line")
    add_dataset(build, "a prepared dataset, see data_prep/README.md")
    build.add_argument("--method", choices=METHODS, default="auto", help="search method")
    build.add_argument("--recall", type=float, default=0.95, help="recall of approximate search")
    build.add_argument("--output", required=True, help="the new folder")
    query = commands.add_parser("query", help="search an index")
    query.add_argument("text", nargs="?", help="a text to search by")
    query.add_argument("--image", help="a picture to search by")
    query.add_argument("--index", required=True, help="the folder of an index")
    query.add_argument("--model", help="the model of the index, if it was moved")
    query.add_argument("--top", type=positive_int, default=10, help="number of hits")
    query.add_argument("--find", choices=KINDS, help="default: images, if there are any")
    query.add_argument("--exact", action="store_true", help="compare all items")
    query.add_argument("--format", choices=FORMATS, default="table", help="format of the hits")
    query.add_argument("--output", help="write to this file instead of the console")
    duplicates = commands.add_parser("duplicates", help="list near duplicates of an index")
    duplicates.add_argument("index", help="the folder of an index")
    duplicates.add_argument("--threshold", type=float, help="least cosine; default: see README.md")
    duplicates.add_argument("--output", required=True, help="folder of the page and the table")
    serve = commands.add_parser("serve", help="search in a browser, and by JSON over HTTP")
    serve.add_argument("--index", required=True, help="the folder of an index")
    serve.add_argument("--model", help="a bundle of the index's model, or its new place")
    folder = search_folder.add_parser(commands)
    for each in (serve, folder):
        each.add_argument("--host", default="127.0.0.1", help="address to listen at")
        each.add_argument("--port", type=int, default=8000, help="port; 0 for a free one")
        each.add_argument("--url", default="", help="address of a proxy of this server")
        each.add_argument("--open", action="store_true", help="open the page in the browser")
    for each in (query, serve, folder):
        uncorrected = (
            "rank by the similarity alone, even if images of the training crowd out others"
        )
        each.add_argument("--uncorrected", action="store_true", help=uncorrected)
    return parser.parse_args(search_folder.with_command(sys.argv[1:], commands.choices))


if __name__ == "__main__":
    console.run(main)
