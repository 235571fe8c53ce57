"""Mines the hard negatives of a training split, block by block; see `mine`."""

import argparse
import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import jax
import numpy as np
from etils import epath

from xmodal.apps.arguments import dataset_section
from xmodal.core import processes
from xmodal.core.atomic import new_folder, replacing, write_atomically
from xmodal.core.errors import UserError
from xmodal.core.json_files import read_json
from xmodal.core.mesh import make_mesh
from xmodal.core.progress import progress
from xmodal.core.untrusted.saved_arrays import load_arrays
from xmodal.data.mined_negatives import CARD
from xmodal.evals.labels.make import make_benchmarks
from xmodal.evals.labels.positives import Ragged, Relation, own_pairs
from xmodal.evals.scores.score_rows import Scores, top_items

if TYPE_CHECKING:
    from xmodal.api.model import Model
    from xmodal.api.search.gallery import IndexGallery
    from xmodal.data import EvalSplit

Positives = Mapping[str, list[Ragged | Relation]]

_DIRECTIONS = {"captions": "i2t", "images": "t2i"}


def write_negatives(args: argparse.Namespace) -> None:
    """Writes the tables that the arguments of `xmodal mine` describe."""
    from xmodal.api.loading import load
    from xmodal.api.search import items as items_lib
    from xmodal.api.search.gallery import embed_items
    from xmodal.pretrained.folder import check_new
    from xmodal.train.folder import folder_lock

    check_new(args.output)
    model = load(args.model, step=args.step, devices=jax.devices())
    section = dataset_section(args) | {"ratings_dir": args.ratings_dir}
    features, max_regions = model.takes_features, model.max_regions
    items = items_lib.from_dataset(section, features=features, max_regions=max_regions)
    if len(items) < 2 or len(model.modalities) < 2:
        raise UserError("Mining compares images with captions; the model or the split lacks one.")
    split = items_lib.open_split(section, features=features, max_regions=max_regions)
    positives = find_positives(split, args.exclude)
    folder = epath.Path(f"{args.output.rstrip('/')}.parts")
    with folder_lock.hold(folder):
        scores = open_model_scores(model, embed_items(model, items))
        card = {
            "records": split.hashes, "model": f"{model.name} {model.hash_weights()}",
            "split": args.split, "captions": args.captions, "images": args.images,
            "excluded": list(args.exclude), "ratings_dir": args.ratings_dir if args.exclude else "",
        }  # fmt: skip
        _check_card(folder, card)
        blocks = {
            "captions": mine_blocks(
                folder, "captions", scores, args.captions, positives, args.block_size
            ),
            "images": mine_blocks(
                folder, "images", scores.transpose(), args.images, positives, args.block_size
            ),
        }
        processes.gather("mine its blocks", "done")

        def write() -> None:
            _write_tables(args.output, blocks, card)
            folder.rmtree()

        processes.first_does("write the tables", write)


def find_positives(split: "EvalSplit", benchmarks: Sequence[str]) -> Positives:
    """Returns the excluded items of each direction: own captions, and positives of benchmarks."""
    from xmodal.evals.evaluators.benchmarks import labels_of_split

    own = own_pairs(split.caption_rows, split.caption_rows)
    sizes = {"i2t": len(split.image_ids), "t2i": len(split.caption_ids)}
    found: dict[str, list[Ragged | Relation]] = {
        name: [Ragged.from_pairs(own[name][0], own[name][1], count)]
        for name, count in sizes.items()
    }
    if benchmarks:
        items: Any = split
        for benchmark in make_benchmarks(labels_of_split(items, benchmarks), benchmarks):
            for name, relations in found.items():
                if name in benchmark.directions:
                    relations += benchmark.directions[name].relations
    return found


def open_model_scores(model: "Model", galleries: Mapping[str, "IndexGallery"]) -> Scores:
    """Returns the scores of images with captions, on the devices of this process."""
    from xmodal.evals.scores.sources import Embeddings
    from xmodal.evals.scores.vector_scores import open_scores

    similarity, parameters = model.measure
    image, caption = galleries["image"], galleries["caption"]
    tokens = {"image": image.tokens, "text": caption.tokens}
    embeddings = Embeddings(
        model.name, np.arange(len(image.vectors)), image.vectors,
        np.arange(len(caption.vectors)), caption.vectors,
        similarity=similarity.name, parameters=parameters, options=similarity.options,
        tokens={modality: each for modality, each in tokens.items() if each is not None},
    )  # fmt: skip
    mesh = make_mesh(jax.local_devices())
    return open_scores(embeddings, mesh=mesh)["image", "text"]


def find_negatives(
    scores: Scores, queries: np.ndarray, top: int, positives: Sequence[Ragged | Relation]
) -> np.ndarray:
    """Returns the best negatives of queries at positions [q], best first, int32 [q, top].

    Of equal scores, the earlier item comes first.

    Args:
      scores: scores of all queries and items.
      queries: positions.
      top: number of negatives per query.
      positives: relations whose items are left out.

    Raises:
      UserError: a query has fewer negatives.
    """
    items, found = np.arange(scores.shape[1]), []
    for at, block in scores.blocks(queries):
        rows = np.array(block)
        for each in positives:
            own = each.expand(queries[at]) if isinstance(each, Ragged) else None
            rows[each.contains(queries[at][:, None], items) if own is None else own] = -np.inf
        fewest = int(np.count_nonzero(rows > -np.inf, axis=1).min())
        if fewest < top:
            raise UserError(
                f"A query has only {fewest:,} negatives among {len(items):,} items, fewer than "
                f"{top:,}; mine fewer."
            )
        found.append(top_items(rows, top).astype(np.int32))
    return np.concatenate(found)


def mine_blocks(
    folder: epath.Path, name: str, scores: Scores, top: int, positives: Positives, height: int
) -> list[epath.Path]:
    """Writes this process's missing blocks of a table, and returns the files of all of them.

    Args:
      folder: folder of the blocks.
      name: "captions" or "images", the items of the table.
      scores: scores of the queries with these items.
      top: items per query.
      positives: see `find_positives`.
      height: queries per block.
    """
    starts = range(0, scores.shape[0], height)
    paths = [folder / f"negative-{name}-{start:08d}-{height}.npy" for start in starts]
    mine = range(processes.index(), len(paths), processes.count())
    missing = [number for number in mine if not paths[number].exists()]
    with progress(f"Mining {name} in {len(missing):,} blocks", len(missing)) as advance:
        for number in missing:
            queries = np.arange(starts[number], min(starts[number] + height, scores.shape[0]))
            found = find_negatives(scores, queries, top, positives[_DIRECTIONS[name]])
            with replacing(paths[number]) as file:
                np.save(file, found)
            advance(1)
    return paths


def _write_tables(
    output: str, blocks: Mapping[str, Sequence[epath.Path]], card: Mapping[str, object]
) -> None:
    with new_folder(output) as folder:
        for name, paths in blocks.items():
            np.save(folder / f"{name}.npy", np.concatenate(list(map(load_arrays, paths))))
        (folder / CARD).write_text(json.dumps(card, indent=2) + "\n")
    print(f"{card['captions']} captions of each image and {card['images']} images of each caption "
          f"in {output}")  # fmt: skip


def _check_card(folder: epath.Path, card: Mapping[str, object]) -> None:
    """Raises an error if the folder has blocks of other settings."""
    path = folder / CARD

    def begin() -> None:
        if not path.exists():
            write_atomically(path, json.dumps(card))

    processes.first_does("begin the tables", begin)
    found = read_json(path, f"remove {folder} and start again.")
    if different := [key for key in card if found.get(key) != card[key]]:
        raise UserError(
            f"{folder} has blocks that were mined with different {', '.join(different)}: remove "
            "it, or use another --output."
        )
