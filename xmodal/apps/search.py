"""Builds indexes of images and captions, and searches them.

    python -m xmodal search PHOTOS
    python -m xmodal search build --model=RUN --images=PHOTOS --output=indexes/photos
    python -m xmodal search query --index=indexes/photos "a dog on a beach"
    python -m xmodal search duplicates indexes/photos --output=duplicates
    python -m xmodal search serve --index=indexes/photos --open

The first builds the index of a folder or brings it up to date, and serves it. A folder that is
named like a command is ./NAME. A model is a run, a bundle or a folder of converted weights. Items
are pictures (a folder, a list of files, or features in a .npy file), captions (one per line), or
the items of a prepared dataset.
"""

import argparse
import contextlib
import os
import pathlib
import sys
from typing import TYPE_CHECKING, Any

from xmodal.api.search import KINDS, MODALITIES
from xmodal.apps.arguments import (
    add_dataset,
    add_server,
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
    from xmodal.api.search.index import Index

_PACKAGED = "pip:efficientnet_lite2"


@console.readable_errors()
def main() -> None:
    """Runs the command that the arguments name."""
    args = _parse()
    commands = {"build": _build, "query": _query, "serve": _serve, "duplicates": _duplicates}
    (commands | {"folder": _search_folder})[args.command](args)


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
    from xmodal.core.reused_memory import reuse_memory
    from xmodal.pretrained.folder import check_new

    check_new(args.output)
    readers = {"image": items_lib.from_images, "caption": items_lib.from_captions}
    given = {"image": args.images, "caption": args.captions}
    items = {kind: readers[kind](place) for kind, place in given.items() if place}
    reuse_memory()
    model = load(args.model, step=args.step, devices=jax.devices())
    if args.dataset:
        found = items_lib.from_dataset(dataset_section(args), model.images)
        items = {kind: each for kind, each in found.items() if MODALITIES[kind] in model.modalities}
    named: Any = {f"{kind}s": each for kind, each in items.items()}
    index = Index.build(model, **named, recall=args.recall)

    def write() -> None:
        index.save(args.output)
        print(describe_index(index, args.output))

    processes.first_does("write the index", write)


def _query(args: argparse.Namespace) -> None:
    from xmodal.api.search import formats
    from xmodal.api.search.index import Index
    from xmodal.api.search.items import read_array

    image = args.image
    if image is not None and image.endswith(".npy"):
        image = read_array(pathlib.Path(image))
    index = Index.open(args.index, model=args.model)
    index.is_corrected = not args.uncorrected
    hits = index.query(args.text, image=image, top=args.top, find=args.find)
    notes = index.notes(args.text)
    is_json = args.format == "json"
    shown = args.image or args.text
    text = formats.as_json(shown, hits, notes) if is_json else formats.as_table(hits, notes)
    # Names of files need not be UTF-8; their bytes are escaped, as JSON does it.
    print(text.encode(errors="backslashreplace").decode(), end="")


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

    _serve_index(Index.open(args.index, model=args.model), args.index, args)


def _search_folder(args: argparse.Namespace) -> None:
    from xmodal.api.loading import load
    from xmodal.api.search import folder_index
    from xmodal.api.search.formats import describe_index
    from xmodal.core.reused_memory import return_freed_memory, reuse_memory

    if not args.no_serve:
        require_extra("search", "starlette", "uvicorn")
    reuse_memory()
    folder = os.path.realpath(args.folder)
    place = args.index or str(folder_index.default_place(folder, args.model))
    index, changes = folder_index.update(folder, place, load(args.model))
    print(f"{folder}: {changes.new:,} new, {changes.changed:,} changed, {changes.gone:,} gone")
    print(describe_index(index, place))
    if not args.no_serve:
        return_freed_memory()  # The server may run for days.
        _serve_index(index, folder, args)


def _serve_index(index: "Index", name: str, args: argparse.Namespace) -> None:
    from xmodal.api import web_server
    from xmodal.api.search.server import make_app

    index.is_corrected = not args.uncorrected
    app = make_app(index, name, args.host, args.url)
    with contextlib.suppress(KeyboardInterrupt):
        web_server.serve(app, name, args.host, args.port, args.url, browse=args.open)


def _parse() -> argparse.Namespace:
    parser = make_parser("search", "Finds images and captions by a text or a picture.")
    commands = parser.add_subparsers(dest="command", required=True)
    build = commands.add_parser("build", help="embed items and write an index")
    build.add_argument("--model", required=True, help="a run, bundle or converted weights")
    build.add_argument("--step", default="best", help="a run's step: a number, best or latest")
    build.add_argument("--images", help="a folder, a list of files, or features in a .npy file")
    build.add_argument("--captions", help="a text file, one caption per line")
    add_dataset(build, "a prepared dataset, see data_prep/README.md")
    recall = "recall of approximate search, which is used from 20,000 items on; 1: exact search"
    build.add_argument("--recall", type=float, default=0.95, help=recall)
    build.add_argument("--output", required=True, help="the new folder")
    query = commands.add_parser("query", help="search an index")
    query.add_argument("text", nargs="?", help="a text to search by")
    query.add_argument("--image", help="a picture to search by")
    query.add_argument("--index", required=True, help="the folder of an index")
    query.add_argument("--model", help="the model of the index, if it was moved")
    query.add_argument("--top", type=positive_int, default=10, help="number of hits")
    query.add_argument("--find", choices=KINDS, help="default: images, if there are any")
    query.add_argument("--format", choices=("table", "json"), default="table", help="of the hits")
    duplicates = commands.add_parser("duplicates", help="list near duplicates of an index")
    duplicates.add_argument("index", help="the folder of an index")
    duplicates.add_argument("--threshold", type=float, help="least cosine; default: see README.md")
    duplicates.add_argument("--output", required=True, help="folder of the page and the table")
    serve = commands.add_parser("serve", help="search in a browser, and by JSON over HTTP")
    serve.add_argument("--index", required=True, help="the folder of an index")
    serve.add_argument("--model", help="a bundle of the index's model, or its new place")
    # Its name is left out.
    folder = commands.add_parser(
        "folder", help="`xmodal search FOLDER`: index the pictures of a folder, and serve them"
    )
    folder.add_argument("folder", help="a folder; only new and changed pictures are embedded")
    folder.add_argument(
        "--model",
        default=_PACKAGED,
        help=f"a run, bundle or published CLIP or SigLIP, for searches by words; {_PACKAGED}, the "
        "default, finds pictures by pictures",
    )
    folder.add_argument("--index", help="folder of the index; default: in ~/.cache/xmodal/search")
    folder.add_argument("--no_serve", action="store_true", help="only write the index")
    for each in (serve, folder):
        add_server(each)
        each.add_argument("--open", action="store_true", help="open the page in the browser")
    for each in (query, serve, folder):
        uncorrected = (
            "rank by the similarity alone, even if images of the training crowd out others"
        )
        each.add_argument("--uncorrected", action="store_true", help=uncorrected)
    arguments = sys.argv[1:]
    if not {*commands.choices}.intersection(arguments) and any(map(os.path.isdir, arguments)):
        arguments.insert(0, "folder")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    console.run(main)
