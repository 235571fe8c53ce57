"""Finds images and captions of an index by a text or a picture, without JAX and without xmodal.

    python search.py INDEX "a dog on a beach" --top=5
    python search.py INDEX --image=dog.jpg

INDEX is a folder of `xmodal search build` or `Index.save`. This file belongs to the folder of an
ONNX export and needs numpy, Pillow, tokenizers and onnxruntime.
"""

import argparse
import functools
import html
import json
import pathlib
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np
import onnxruntime
import PIL.Image
import PIL.ImageOps
import tokenizers

from xmodal.core.untrusted.picture_formats import open_picture, to_rgb
from xmodal.data.pixels.resample import EVALUATION_CROPS


class OnnxModel:
    """Embeds texts and images with the files of an export.

    Attributes:
      card: the content of onnx.json.
    """

    def __init__(self, folder: pathlib.Path) -> None:
        """Reads the card; the other files are read when they are needed."""
        self._folder, self.card = folder, json.loads((folder / "onnx.json").read_text())
        self._run = functools.cache(self._open)

    def embed_texts(self, texts: Sequence[str]) -> np.ndarray:
        """Returns the embeddings of texts, float32 [N, D]."""
        file = self._folder / "tokenizer.json"
        if not file.exists():
            sys.exit(f"{file} is missing, see README.md: search by --image.")
        config = self.card["text"]["preprocessing"]
        if config["tokenizer"] == "bpe":
            texts = [html.unescape(html.unescape(text)) for text in texts]
        found = tokenizers.Tokenizer.from_file(str(file)).encode_batch(list(texts))
        ids = np.array([each.ids for each in found], np.int32)
        mask = np.array([each.attention_mask for each in found], np.int32)
        return self.embed_ids(ids, np.ones_like(mask) if config["attend_to_padding"] else mask)

    def embed_ids(self, ids: np.ndarray, mask: np.ndarray) -> np.ndarray:
        """Returns the embeddings of texts by their ids and mask, int32 [N, T]."""
        return self._run("text")({"text_ids": ids, "text_mask": mask})

    def embed_images(self, images: Sequence[Any] | np.ndarray) -> np.ndarray:
        """Returns the embeddings of files or uint8 arrays [H, W, 3], or of features: [N, D]."""
        config = self.card["image"]["preprocessing"]
        crop = EVALUATION_CROPS[config["eval_transform"]]
        if config["size"]:
            pixels = [read_pixels(each) if isinstance(each, str) else each for each in images]
            images = np.stack([crop(each, config["size"], config["eval_crop"]) for each in pixels])
        return self._run("image")({"image": np.asarray(images)})

    def _open(self, modality: str) -> Any:
        onnxruntime.set_default_logger_severity(3)
        session = onnxruntime.InferenceSession(self._folder / f"{modality}.onnx")
        return lambda columns: session.run(["vectors"], columns)[0]


def read_pixels(path: str) -> np.ndarray:
    """Returns an upright picture on white, uint8 [H, W, 3]."""
    picture = open_picture(path)
    if picture.format != "TIFF":  # Pillow itself rotates a TIFF.
        picture = PIL.ImageOps.exif_transpose(picture)
    return np.asarray(to_rgb(picture))


def compare(query: np.ndarray, vectors: np.ndarray, similarity: str) -> np.ndarray:
    """Returns the scores [N] of vectors [N, D] with one [D] by `cosine` or `dot`."""
    if similarity == "cosine":
        query, vectors = (
            each / np.maximum(np.linalg.norm(each, axis=-1, keepdims=True), 1e-12)
            for each in (query, vectors)
        )
    return vectors @ query


def main() -> None:
    """Prints rank, score and name of the items most similar to the query."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("index", type=pathlib.Path, help="folder of an index of this model")
    query = parser.add_mutually_exclusive_group(required=True)
    query.add_argument("text", nargs="?", help="the query as text")
    query.add_argument("--image", help="the query as a picture")
    parser.add_argument("--find", choices=("image", "caption"), help="by default images, if any")
    parser.add_argument("--top", type=int, default=10, help="largest number of hits")
    args = parser.parse_args()
    model = OnnxModel(pathlib.Path(__file__).parent)
    if json.loads((args.index / "index.json").read_text())["weights"] != model.card["weights"]:
        sys.exit(f"{args.index} was embedded by another model: build it again with this one.")
    kind = args.find or ("image" if (args.index / "image.npy").exists() else "caption")
    names = json.loads((args.index / f"{kind}.json").read_text())
    vectors = np.load(args.index / f"{kind}.npy", mmap_mode="r")
    given = model.embed_images([args.image]) if args.image else model.embed_texts([args.text])
    scores = compare(given[0], vectors, model.card["similarity"]["name"])
    for rank, row in enumerate(np.argsort(-scores, kind="stable")[: args.top], start=1):
        print(f"{rank:>4}  {scores[row]:8.4f}  {names[row]}")


if __name__ == "__main__":
    try:
        main()
    except OSError as error:
        sys.exit(f"{error}")
