"""Embeddings of an evaluation for TensorBoard's projector."""

import io
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import PIL.Image

from xmodal.core.result_files import write_files
from xmodal.core.untrusted.picture_formats import open_picture, to_rgb
from xmodal.evals.labels.ids import Positions
from xmodal.evals.labels.split import name_image
from xmodal.evals.scores.embed import Items
from xmodal.evals.scores.sources import Embeddings

_TILE = 40  # Pixels per picture; all pictures are in one file, at most 8192 pixels wide.
_MOST = (8192 // _TILE) ** 2


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
        if not source.modalities:  # The model only scores pairs.
            continue
        vectors, rows, tiles = _gather(source, items, min(count, _MOST // 2))
        entry = config.embeddings.add()
        entry.tensor_name = name
        entry.tensor_path = f"projector-{name}.vectors.tsv"
        entry.metadata_path = f"projector-{name}.metadata.tsv"
        files[entry.tensor_path] = _table([f"{x:.5g}" for x in row] for row in vectors)
        # A table with several columns begins with their names.
        files[entry.metadata_path] = _table([("text", "kind", "image"), *rows])
        if tiles:
            entry.sprite.image_path = f"projector-{name}.png"
            entry.sprite.single_image_dim.extend([_TILE, _TILE])
            files[entry.sprite.image_path] = _sprite(tiles)
    files["projector_config.pbtxt"] = text_format.MessageToString(config)
    write_files(folder, files)


def _gather(
    source: Embeddings, items: Items, count: int
) -> tuple[np.ndarray, list[tuple[str, str, str]], list[Any]]:
    """Vectors [P, D], rows of metadata and, if there are any, pictures of P items."""
    total = len(items.image_ids)
    at = np.linspace(0, total, min(count, total), endpoint=False).astype(int)
    image_ids = np.asarray(items.image_ids)[at]
    names = [name_image(items, image) for image in image_ids]
    # The first caption of each of these images.
    owners = Positions("image", image_ids).find(np.asarray(items.caption_image_ids))
    captioned, captions = np.unique(owners, return_index=True)
    captioned, captions = captioned[captioned >= 0], captions[captioned >= 0]
    texts = dict(zip(captioned, (str(items.caption_texts[n]) for n in captions), strict=True))
    vectors, rows, pictured = [], [], list[int]()
    if source.images is not None and source.image_ids is not None:
        vectors.append(source.images[Positions("image", source.image_ids)(image_ids)])
        rows += [(texts.get(n, ""), "image", name) for n, name in enumerate(names)]
        pictured += range(len(names))
    if source.captions is not None and source.caption_ids is not None:
        ids = np.asarray(items.caption_ids)[captions]
        vectors.append(source.captions[Positions("caption", source.caption_ids)(ids)])
        rows += [(texts[n], "caption", names[n]) for n in captioned]
        pictured += captioned.tolist()
    joined = np.concatenate(vectors).astype(np.float32)
    joined = joined.mean(axis=1) if joined.ndim == 3 else joined
    if not items.has_pictures:
        return joined, rows, []
    pictures = [*items.pictures(at)]
    return joined, rows, [pictures[n] for n in pictured]


def _table(rows: Iterable[Sequence[str]]) -> str:
    return "".join("\t".join(" ".join(cell.split()) for cell in row) + "\n" for row in rows)


def _sprite(pictures: Sequence[bytes]) -> bytes:
    """Returns all pictures as tiles of one, row by row, as a PNG file."""
    columns = math.ceil(math.sqrt(len(pictures)))
    rows = math.ceil(len(pictures) / columns)
    sheet = PIL.Image.new("RGB", (columns * _TILE, rows * _TILE), (255, 255, 255))
    for number, picture in enumerate(pictures):
        row, column = divmod(number, columns)
        tile = to_rgb(open_picture(picture)).resize((_TILE, _TILE))
        sheet.paste(tile, (column * _TILE, row * _TILE))
    file = io.BytesIO()
    sheet.save(file, "PNG")
    return file.getvalue()
