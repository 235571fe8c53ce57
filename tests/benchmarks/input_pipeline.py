"""Measures the training input: pictures compared with tf.image, and captions.

    python -m tests.benchmarks.input_pipeline --jpegs=FOLDER [--captions=FILE --vocabulary=FILE]

Pictures are decoded, augmented and resized to 380 pixels, with the same crops, flips and color
shifts for both; tf.data may use all cores. Captions are cut by a `vocab.txt` of BERT.
"""

import argparse
import pathlib
from collections.abc import Callable

import numpy as np
import simplejpeg
import tensorflow as tf

from tests.benchmarks.turns import compare
from xmodal.data.pixels.augment import AugmentConfig, draw
from xmodal.data.pixels.images import ImageConfig, prepare_images
from xmodal.data.read_ahead import read_ahead
from xmodal.data.text.text_config import TextConfig
from xmodal.data.text.tokenizer_files import read_vocabulary
from xmodal.data.text.tokenizers import make_tokenizer

SIZE, BATCH, AUGMENT = 380, 64, AugmentConfig()


def make_ours(files: list[bytes], seeds: np.ndarray) -> Callable[[], None]:
    """The function that prepares all pictures."""
    config = ImageConfig(size=SIZE, augment=AUGMENT)

    def prepare(start: int) -> np.ndarray:
        rows = slice(start, start + BATCH)
        return prepare_images(files[rows], config, seeds[rows])

    return lambda: [*map(len, read_ahead(prepare, range(0, len(files), BATCH), 2))]


def make_tensorflow(files: list[bytes], seeds: np.ndarray) -> Callable[[], None]:
    """See `make_ours`."""

    def prepare(encoded, window, mirrored, shift):
        picture = tf.slice(
            tf.io.decode_jpeg(encoded, channels=3),
            tf.concat([window[:2], [0]], 0),
            tf.concat([window[2:], [3]], 0),
        )
        picture = tf.where(mirrored, tf.reverse(picture, [1]), picture)
        picture = tf.image.resize(picture, [SIZE, SIZE], "bilinear", antialias=True) + shift
        return tf.saturate_cast(tf.round(picture), tf.uint8)

    extents = [simplejpeg.decode_jpeg_header(file)[:2] for file in files]
    draws = [draw(seed, *extent, AUGMENT) for seed, extent in zip(seeds, extents, strict=True)]
    columns = tuple(map(np.array, zip(*draws, strict=True)))
    pictures = tf.data.Dataset.from_tensor_slices((files, *columns)).cache()
    batches = pictures.map(prepare, tf.data.AUTOTUNE).batch(BATCH).prefetch(2)
    return lambda: [*map(len, batches.as_numpy_iterator())]


def main() -> None:
    """Prints the figures."""
    parser = argparse.ArgumentParser()
    for name in ("jpegs", "captions", "vocabulary"):
        parser.add_argument(f"--{name}", default="")
    parser.add_argument("--rounds", type=int, default=5)
    args = parser.parse_args()
    if args.jpegs:
        files = [path.read_bytes() for path in sorted(pathlib.Path(args.jpegs).glob("*.jpg"))]
        seeds = np.stack([np.full(len(files), 7), np.arange(len(files))], axis=1)
        calls = {"ours": make_ours(files, seeds), "tf.image": make_tensorflow(files, seeds)}
        compare("pictures", calls, rounds=args.rounds, count=len(files))
    if args.captions:
        texts = pathlib.Path(args.captions).read_text(encoding="utf-8").splitlines()
        config = TextConfig("wordpiece", args.vocabulary, max_length=64)
        encode = make_tokenizer(config, read_vocabulary(args.vocabulary)).encode
        calls = {"ours": lambda: [encode(texts[i : i + 1024]) for i in range(0, len(texts), 1024)]}
        compare("captions", calls, rounds=args.rounds, count=len(texts))


if __name__ == "__main__":
    main()
