"""Compares the training input with a plain tf.data pipeline and with decoding alone, in one run.

    python -m tests.benchmarks.input_pipeline [--jpegs=FOLDER] [--captions=FILE --vocabulary=FILE]

Pictures of 500 pixels are resized to 380, with the same crops, flips and color shifts for both
pipelines. Each round runs all of them in turn; speeds are medians. `of a core` counts only
processor time, which is less affected by other programs than wall time. Without your own files,
pictures are noise with the spectrum of photographs, and captions consist of words from an invented
vocabulary.
"""

import argparse
import concurrent.futures
import io
import os
import pathlib
import random
import resource
import statistics
import tempfile
import time

import numpy as np
import PIL.Image
import simplejpeg
import tensorflow as tf

import data_prep
from data_prep.build import build
from tests.data.text.wordpiece_test import _reference
from xmodal import data
from xmodal.core.read_ahead import read_ahead
from xmodal.data.order import Order
from xmodal.data.pixels.augment import AugmentConfig, draw
from xmodal.data.pixels.images import ImageConfig, prepare_images
from xmodal.data.text.text_config import TextConfig
from xmodal.data.text.tokenizers import make_tokenizer
from xmodal.data.text.wordpiece import SPECIAL_TOKENS

SIZE = 380
AUGMENT = AugmentConfig()


def make_jpegs(count, quality):
    """Noise with amplitude falling with frequency, as in photographs; landscape and portrait."""
    rng = np.random.default_rng(0)
    files = []
    for number in range(count):
        height, width = (375, 500) if number % 4 else (500, 375)
        frequency = np.hypot(np.fft.fftfreq(height)[:, None], np.fft.rfftfreq(width))
        frequency[0, 0] = 1
        gray, *colors = np.fft.irfft2(
            np.fft.rfft2(rng.normal(size=(4, height, width))) / frequency, (height, width)
        )
        picture = np.stack([gray + 0.3 * color for color in colors], axis=-1)
        pixels = (128 + 45 * picture / picture.std()).clip(0, 255).astype(np.uint8)
        file = io.BytesIO()
        PIL.Image.fromarray(pixels).save(file, "JPEG", quality=quality)
        files.append(file.getvalue())
    return files


def plain_picture(encoded, window, mirrored, shift):
    """One picture as tf.image computes it, from precomputed draws."""
    picture = tf.slice(
        tf.io.decode_jpeg(encoded, channels=3),
        tf.concat([window[:2], [0]], 0),
        tf.concat([window[2:], [3]], 0),
    )
    picture = tf.where(mirrored, tf.reverse(picture, [1]), picture)
    picture = tf.image.resize(picture, [SIZE, SIZE], "bilinear", antialias=True) + shift
    return tf.saturate_cast(tf.round(picture), tf.uint8)


def drawn(files, seeds):
    """The windows [N, 4], flips [N] and color shifts [N, 3] of all pictures."""
    extents = [simplejpeg.decode_jpeg_header(file)[:2] for file in files]
    draws = [draw(seed, *extent, AUGMENT) for seed, extent in zip(seeds, extents, strict=True)]
    return tuple(map(np.array, zip(*draws, strict=True)))


def pipelines(files, seeds, batch_size):
    """Functions by name that process all pictures once; the two that augment yield batches."""
    plain = tf.data.Dataset.from_tensor_slices((files, *drawn(files, seeds))).cache()
    threads = concurrent.futures.ThreadPoolExecutor(os.cpu_count())
    config = ImageConfig(size=SIZE, augment=AUGMENT)

    def decode(encoded, *_):
        return tf.reduce_max(tf.io.decode_jpeg(encoded, channels=3)[0, 0])

    def ours(start):
        rows = slice(start, start + batch_size)
        return prepare_images(files[rows], config, seeds[rows])

    auto = tf.data.AUTOTUNE
    datasets = {
        "tf.image": plain.map(plain_picture, auto).batch(batch_size).prefetch(2),
        "decode (tf.data)": plain.map(decode, auto).batch(batch_size).prefetch(2),
    }
    runs = {"xmodal": lambda: read_ahead(ours, range(0, len(files), batch_size), 2)}
    runs |= {name: dataset.as_numpy_iterator for name, dataset in datasets.items()}
    runs["decode (simplejpeg)"] = lambda: threads.map(simplejpeg.decode_jpeg, files)
    return runs


def measure(runs, count, rounds):
    """Median items per second of wall time and of processor time, by name."""
    speeds = {name: [] for name in runs}
    for _ in range(rounds):
        for name, run in runs.items():
            clock, processor = time.perf_counter(), time.process_time()
            for _ in run():
                pass
            spent = time.perf_counter() - clock, time.process_time() - processor
            speeds[name].append([count / seconds for seconds in spent])
    return {name: list(map(statistics.median, zip(*each))) for name, each in speeds.items()}  # noqa: B905


def report_pictures(args):
    """Reports speeds, memory and pixel differences."""
    imported = peak_gigabytes()
    if args.jpegs:
        files = [path.read_bytes() for path in sorted(pathlib.Path(args.jpegs).glob("*.jpg"))]
    else:
        files = make_jpegs(args.count, args.quality)
    seeds = np.stack([np.full(len(files), 7), np.arange(len(files))], axis=1)
    runs = pipelines(files, seeds, args.batch_size)
    print(f"{len(files)} JPEGs of {np.mean([len(file) for file in files]) / 1e3:.0f} KB on average")
    measure({"xmodal": runs["xmodal"]}, len(files), 3)
    print(
        f"peak memory after three rounds: {peak_gigabytes():.2f} GB, "
        f"{imported:.2f} GB of it imports, most of that mapped libraries"
    )
    ours = np.concatenate(list(runs["xmodal"]()))
    difference = np.abs(ours - np.concatenate(list(runs["tf.image"]())).astype(np.float32))
    print(
        f"pixels: mean absolute difference {difference.mean():.5f} / 255, largest "
        f"{difference.max():.0f}, {(difference > 0).mean():.3%} of the values differ"
    )
    speeds = measure(runs, len(files), args.rounds)
    for name, (clock, processor) in speeds.items():
        print(f"{name:20} {clock:8.0f} pictures per second, {processor:6.0f} of a core")
    for name in list(speeds)[1:]:
        ratios = (a / b for a, b in zip(speeds["xmodal"], speeds[name], strict=True))
        print("xmodal / {:20} {:.2f}, by processor time {:.2f}".format(name, *ratios))


def report_captions(args):
    """Reports captions per second, and the number of rows that differ from BERT's rules."""
    if args.captions:
        captions = pathlib.Path(args.captions).read_text(encoding="utf-8").splitlines()
        vocabulary = pathlib.Path(args.vocabulary).read_text(encoding="utf-8").splitlines()
    else:
        rng = random.Random(0)
        letters = "abcdefghijklmnopqrstuvwxyz"
        words = ["".join(rng.choices(letters, k=rng.randint(2, 9))) for _ in range(20_000)]
        pieces = ["##" + letter for letter in letters]
        vocabulary = [*SPECIAL_TOKENS, *letters, ".", ",", *dict.fromkeys(words), *pieces]
        captions = [" ".join(rng.choices(words, k=10)).capitalize() + "." for _ in range(50_000)]
        captions[::100] = [caption + " Caf\u00e9\u2026" for caption in captions[::100]]
    tokenizer = make_tokenizer(TextConfig(max_length=64), vocabulary)

    def run():
        for start in range(0, len(captions), 1024):
            yield tokenizer.encode(captions[start : start + 1024])

    speeds = measure({"captions": run}, len(captions), args.rounds)
    print("{:.0f} captions per second, {:.0f} of a core".format(*speeds["captions"]))
    few = captions[:: max(1, len(captions) // 2000)]
    ids, _ = tokenizer.encode(few)
    wrong = sum(
        row != _reference(text, vocabulary) for row, text in zip(ids.tolist(), few, strict=True)
    )
    print(f"{wrong} of {len(few)} rows differ from BERT's rules")


def report_resuming():
    """Reports seconds from the call to the first batch, at the start and late in a run."""
    started = time.perf_counter()
    order = Order(0, 3_300_000, 4096)
    order.examples(700_000), order.caption_draws(700_000, 2)
    print(f"order of 3.3 million examples at step 700,000: {time.perf_counter() - started:.2f} s")
    with tempfile.TemporaryDirectory() as folder:
        data_prep.builder_class("crisscrossed_shapes").SPLIT_SIZES = {
            "train": 500, "validation": 25, "test": 25,
        }  # fmt: skip
        build("crisscrossed_shapes", "images", data_dir=folder)
        config = {
            "dataset": "crisscrossed_shapes", "data_dir": folder,
            "image": {"size": SIZE, "augment": {}}, "text": {"vocabulary_size": 300},
        }  # fmt: skip
        data.vocabulary_size(config)  # learned once per dataset
        for step in (0, 1, 1_000, 999_999):
            clock, processor = time.perf_counter(), time.process_time()
            next(
                data.train_batches(
                    config, split="train", seed=0, batch_size=32, first_step=step,
                    total_steps=1_000_000,
                )
            )  # fmt: skip
            spent = time.perf_counter() - clock, time.process_time() - processor
            print("first batch at step {:,}: {:.2f} s, {:.2f} s of a core".format(step, *spent))


def peak_gigabytes():
    """Peak memory of this process so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e9


def main():
    """Prints speeds, ratios and differences."""
    parser = argparse.ArgumentParser()
    for name in ("jpegs", "captions", "vocabulary"):
        parser.add_argument(f"--{name}", default="")
    for name, default in {"count": 256, "quality": 92, "batch_size": 64, "rounds": 5}.items():
        parser.add_argument(f"--{name}", type=int, default=default)
    args = parser.parse_args()
    report_pictures(args)
    report_captions(args)
    report_resuming()


if __name__ == "__main__":
    main()
