"""Measures the training input: pictures compared with tf.image and torchvision, and captions.

    python -m tests.benchmarks.input_pipeline --jpegs=FOLDER [--workers=2]
        [--captions=FILE --vocabulary=FILE]

Pictures are decoded, augmented and resized to 380 pixels, with the same crops, flips and color
shifts for all; tf.data may use all cores, torchvision (left out if it is missing) computes in the
process of its `DataLoader`. With --workers, the same batches come from threads of one process and
from so many processes. Captions are cut by a `vocab.txt` of BERT.

`py-spy record --pid=PID --gil` counts samples in which a thread holds the interpreter's lock.
"""

import argparse
import functools
import importlib.util
import json
import pathlib
import time
from collections.abc import Callable, Iterator

import numpy as np
import simplejpeg

from tests.benchmarks.turns import compare, in_own_process
from xmodal.data.pixels.augment import AugmentConfig, draw
from xmodal.data.pixels.images import ImageConfig, prepare_images
from xmodal.data.read_ahead import Batch, read_ahead, read_in_processes
from xmodal.data.text.text_config import TextConfig
from xmodal.data.text.tokenizer_files import read_vocabulary
from xmodal.data.text.tokenizers import make_tokenizer

SIZE, BATCH, AUGMENT = 380, 64, AugmentConfig()


def read_files(folder: str) -> tuple[list[bytes], np.ndarray]:
    """The pictures of a folder, and their seeds int64 [N, 2]."""
    files = [path.read_bytes() for path in sorted(pathlib.Path(folder).glob("*.jpg"))]
    return files, np.stack([np.full(len(files), 7), np.arange(len(files))], axis=1)


def draw_all(files: list[bytes], seeds: np.ndarray) -> tuple[np.ndarray, ...]:
    """Windows [N, 4], flips [N] and shifts [N, 3] of the pictures."""
    extents = [simplejpeg.decode_jpeg_header(file)[:2] for file in files]
    draws = [draw(seed, *extent, AUGMENT) for seed, extent in zip(seeds, extents, strict=True)]
    return tuple(map(np.array, zip(*draws, strict=True)))


def make_prepare(folder: str) -> Callable[[int], Batch]:
    """The function that prepares a batch by its number; batches repeat."""
    files, seeds = read_files(folder)
    config = ImageConfig(size=SIZE, augment=AUGMENT)

    def prepare(number: int) -> Batch:
        start = number * BATCH % (len(files) - BATCH + 1)
        rows = slice(start, start + BATCH)
        return {"image": prepare_images(files[rows], config, seeds[rows])}

    return prepare


def make_ours(folder: str, count: int) -> Callable[[], None]:
    """The function that prepares as many pictures."""
    prepare = make_prepare(folder)
    return lambda: [*map(len, read_ahead(prepare, range(count // BATCH), 2))]


def make_tensorflow(files: list[bytes], seeds: np.ndarray) -> Callable[[], None]:
    """See `make_ours`."""
    import tensorflow as tf  # torchvision fails in a process that has it.

    def prepare(encoded, window, mirrored, shift):
        picture = tf.slice(
            tf.io.decode_jpeg(encoded, channels=3),
            tf.concat([window[:2], [0]], 0),
            tf.concat([window[2:], [3]], 0),
        )
        picture = tf.where(mirrored, tf.reverse(picture, [1]), picture)
        picture = tf.image.resize(picture, [SIZE, SIZE], "bilinear", antialias=True) + shift
        return tf.saturate_cast(tf.round(picture), tf.uint8)

    columns = (files, *draw_all(files, seeds))
    pictures = tf.data.Dataset.from_tensor_slices(columns).cache()
    batches = pictures.map(prepare, tf.data.AUTOTUNE).batch(BATCH).prefetch(2)
    return lambda: [*map(len, batches.as_numpy_iterator())]


def make_torchvision(folder: str) -> Callable[[], None]:
    """See `make_ours`."""
    import torch
    from torchvision.io import decode_jpeg
    from torchvision.transforms.v2 import functional

    torch.set_num_threads(1)  # As in the workers of a `DataLoader`.
    files, seeds = read_files(folder)
    encoded = [torch.frombuffer(bytearray(file), dtype=torch.uint8) for file in files]
    windows, flips, shifts = draw_all(files, seeds)

    class Pictures(torch.utils.data.Dataset):
        def __len__(self) -> int:
            return len(files)

        def __getitem__(self, at: int) -> torch.Tensor:
            picture = functional.crop(decode_jpeg(encoded[at]), *map(int, windows[at]))
            if flips[at]:
                picture = functional.horizontal_flip(picture)
            picture = functional.resize(picture, [SIZE, SIZE], antialias=True)
            shifted = picture + torch.from_numpy(shifts[at])[:, None, None]
            return shifted.clamp_(0, 255).round_().to(torch.uint8)

    loader = torch.utils.data.DataLoader(Pictures(), BATCH)
    return lambda: [*map(len, loader)]


def pictures_per_second(batches: Iterator[Batch], skip: int) -> float:
    """The speed after the first batches, in which processes start."""
    for _ in range(skip):
        next(batches)
    started = time.perf_counter()
    count = sum(len(batch["image"]) for batch in batches)
    return round(count / (time.perf_counter() - started), 1)


def main() -> None:
    """Prints the figures."""
    parser = argparse.ArgumentParser()
    for name in ("jpegs", "captions", "vocabulary"):
        parser.add_argument(f"--{name}", default="")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--workers", type=int, default=0)
    args = parser.parse_args()
    if args.jpegs and args.workers:
        numbers, make = range(64 * args.workers), functools.partial(make_prepare, args.jpegs)
        threads = pictures_per_second(read_ahead(make(), numbers, 2), 2)
        batches = read_in_processes(make, numbers, args.workers)
        speeds = {"threads": threads, "processes": pictures_per_second(batches, 4 * args.workers)}
        print(json.dumps({"figure": "pictures per second", "workers": args.workers} | speeds))
    elif args.jpegs:
        files, seeds = read_files(args.jpegs)
        count = len(files) // BATCH * BATCH
        files, seeds = files[:count], seeds[:count]
        calls = {"ours": make_ours(args.jpegs, count), "tf.image": make_tensorflow(files, seeds)}
        if importlib.util.find_spec("torchvision"):
            calls["torchvision"] = in_own_process(make_torchvision, args.jpegs)
        compare("pictures", calls, rounds=args.rounds, count=count)
    if args.captions:
        texts = pathlib.Path(args.captions).read_text(encoding="utf-8").splitlines()
        config = TextConfig("wordpiece", args.vocabulary, max_length=64)
        encode = make_tokenizer(config, read_vocabulary(args.vocabulary)).encode
        calls = {"ours": lambda: [encode(texts[i : i + 1024]) for i in range(0, len(texts), 1024)]}
        compare("captions", calls, rounds=args.rounds, count=len(texts))


if __name__ == "__main__":
    main()
