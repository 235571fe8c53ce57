"""Embeddings of an evaluation for TensorBoard's projector."""

import io
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import PIL.Image

from xmodal.core.result_files import write_files
from xmodal.core.untrusted.cells import inert_cell
from xmodal.core.untrusted.picture_formats import open_picture, to_rgb
from xmodal.evals.labels.ids import Positions
from xmodal.evals.labels.split import name_image
from xmodal.evals.scores.embed import Items
from xmodal.evals.scores.sources import Embeddings

_TILE = 40  # Pixels per picture; all pictures are in one file, at most 8192 pixels wide.
_MOST = (8192 // _TILE) ** 2
_CONFIG = "projector_config.pbtxt"


def write_projector(
    folder: str, embeddings: Mapping[str, tuple[Embeddings, Items]], count: int
) -> None:
    """Writes vectors, captions and pictures for the tab "Projector" of a run's folder.

    Images and captions are shown in one cloud; a caption has the picture of its image. If an item
    has several vectors, they are averaged.

    Args:
      folder: folder of the event files that TensorBoard shows as one run.
      embeddings: evaluator -> embeddings, and their items.
      count: largest number of images, evenly spaced in the split, each with its first caption.

    Raises:
      UserError: the folder cannot be written.
    """
    from google.protobuf import text_format
    from tensorboard.plugins.projector import ProjectorConfig

    config = ProjectorConfig()
    files: dict[str, str | bytes] = {}
    for name, (source, items) in embeddings.items():
        if not source.sides:  # The model only scores pairs.
            continue
        vectors, rows, tiles = _gather(source, items, min(count, _MOST // 2))
        entry = config.embeddings.add()
        entry.tensor_name = name
        entry.tensor_path = f"projector-{name}.vectors.tsv"
        entry.metadata_path = f"projector-{name}.metadata.tsv"
        files[entry.tensor_path] = _table(vectors.tolist(), "{:.5g}".format)
        # A table with several columns begins with their names.
        files[entry.metadata_path] = _table([["text", "kind", "image"], *rows], _cell)
        if tiles:
            entry.sprite.image_path = f"projector-{name}.png"
            entry.sprite.single_image_dim.extend([_TILE, _TILE])
            files[entry.sprite.image_path] = _sprite(tiles)
    write_files(folder, files | {_CONFIG: text_format.MessageToString(config)})


def _gather(
    source: Embeddings, items: Items, count: int
) -> tuple[np.ndarray, list[list[str]], list[PIL.Image.Image]]:
    """Vectors [P, D], rows of metadata and, if there are any, tiles of P items."""
    total = len(items.image_ids)
    count = min(count, total)
    at = (2 * np.arange(count) + 1) * total // (2 * max(count, 1))
    image_ids = np.asarray(items.image_ids)[at]
    own = Positions("image", image_ids).find(np.asarray(items.caption_image_ids))
    # The first caption of every image.
    captions = np.flatnonzero(own >= 0)
    captions = captions[np.unique(own[captions], return_index=True)[1]]
    texts = {own[c]: items.caption_texts[int(c)] for c in captions}
    names = [name_image(items, image) for image in image_ids]
    vectors, rows, kinds = [], [], []
    if source.images is not None:
        assert source.image_ids is not None
        vectors.append(source.images[Positions("image", source.image_ids)(image_ids)])
        rows += [[texts.get(i, ""), "image", name] for i, name in enumerate(names)]
        kinds.append(np.arange(count))
    if source.captions is not None:
        assert source.caption_ids is not None
        ids = np.asarray(items.caption_ids)[captions]
        vectors.append(source.captions[Positions("caption", source.caption_ids)(ids)])
        rows += [[texts[own[c]], "caption", names[own[c]]] for c in captions]
        kinds.append(own[captions])
    joined = np.concatenate([_flatten(each) for each in vectors])
    if not items.has_pictures:
        return joined, rows, []
    tiles = [_tile(encoded) for encoded in items.pictures(at)]
    return joined, rows, [tiles[i] for i in np.concatenate(kinds)]


def _flatten(vectors: np.ndarray) -> np.ndarray:
    """One vector per item, the mean if it has several."""
    vectors = np.asarray(vectors, np.float32)
    return vectors.mean(axis=1) if vectors.ndim == 3 else vectors


def _table(rows: Sequence[Sequence[Any]], show: Callable[[Any], str]) -> str:
    return "".join("\t".join(map(show, row)) + "\n" for row in rows)


def _cell(text: str) -> str:
    """A text on one line, which no spreadsheet runs; it would read what is quoted as a formula."""
    return str(inert_cell(" ".join(text.split()).replace('"', "'")))


def _tile(encoded: bytes) -> PIL.Image.Image:
    return to_rgb(open_picture(encoded)).resize((_TILE, _TILE))


def _sprite(tiles: list[PIL.Image.Image]) -> bytes:
    """All tiles in one picture, row by row."""
    columns = math.ceil(math.sqrt(len(tiles)))
    size = (columns * _TILE, math.ceil(len(tiles) / columns) * _TILE)
    sheet = PIL.Image.new("RGB", size, (255, 255, 255))
    for number, tile in enumerate(tiles):
        row, column = divmod(number, columns)
        sheet.paste(tile, (column * _TILE, row * _TILE))
    file = io.BytesIO()
    sheet.save(file, "PNG")
    return file.getvalue()
