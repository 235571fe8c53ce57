"""Mines the hard negatives of a training split, block by block; see `mine`."""

import argparse
import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

import jax
import numpy as np
from etils import epath

from xmodal.apps.arguments import dataset_section
from xmodal.core import processes
from xmodal.core.errors import UserError
from xmodal.core.files import new_folder, replacing
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
    items = items_lib.from_dataset(section, model.images)
    split = items_lib.open_split(section, model.images)
    positives = find_positives(split, args.exclude)
    card = {
        "records": split.hashes, "model": f"{model.name} {model.hash_weights()}",
        "split": args.split, "captions": args.captions, "images": args.images,
        "excluded": list(args.exclude), "ratings_dir": args.ratings_dir if args.exclude else "",
    }  # fmt: skip
    parts = epath.Path(f"{args.output.rstrip('/')}.parts")
    # Blocks of other settings are never taken for these.
    folder = parts / hashlib.sha256(json.dumps(card).encode()).hexdigest()[:16]
    with folder_lock.hold(parts):
        found = {kind: embed_items(model, kind, each) for kind, each in items.items()}
        scores = open_model_scores(model, found)
        how = positives, args.block_size
        blocks = {
            "captions": mine_blocks(folder, "captions", scores, args.captions, *how),
            "images": mine_blocks(folder, "images", scores.transpose(), args.images, *how),
        }
        processes.gather("mine its blocks", "done")

        def write() -> None:
            with new_folder(args.output) as made:
                for name, paths in blocks.items():
                    np.save(made / f"{name}.npy", np.concatenate([*map(load_arrays, paths)]))
                (made / CARD).write_text(json.dumps(card, indent=2) + "\n")
            print(f"{args.captions} captions of each image and {args.images} images of each "
                  f"caption in {args.output}")  # fmt: skip
            parts.rmtree()

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
    labels = labels_of_split(cast("Any", split), benchmarks) if benchmarks else None
    for benchmark in make_benchmarks(labels, benchmarks) if labels else ():
        for name in found.keys() & benchmark.directions.keys():
            found[name] += benchmark.directions[name].relations
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

    Items with equal scores keep their order.

    Args:
      scores: scores of all queries and items.
      queries: positions.
      top: number of negatives per query.
      positives: relations whose items are left out.
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
    folder.mkdir(parents=True, exist_ok=True)
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
