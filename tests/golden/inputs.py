"""The files that cases of the golden record read, all made from a few seeds."""

import csv
import json
import pathlib
from collections.abc import Iterable, Sequence

import numpy as np
import PIL.Image

IMAGES = np.arange(101, 131)
CAPTIONS = (IMAGES[:, None] * 10 + np.arange(5)).ravel()
OWNERS = np.repeat(IMAGES, 5)
COLORS = {"red": (220, 40, 40), "green": (40, 180, 60), "blue": (40, 60, 220)}


def write_inputs(folder: pathlib.Path) -> None:
    """Writes all files to a new folder."""
    folder.mkdir(parents=True)
    _write_pictures(folder)
    _write_model(folder)
    _write_annotations(folder / "annotations")
    _write_judgments(folder)


def _write_pictures(folder: pathlib.Path) -> None:
    """A folder of pictures with captions, also in a layout of `captioned_images`."""
    rng = np.random.default_rng(0)
    (folder / "pictures").mkdir()
    (folder / "own").mkdir()
    rows, captions = [], []
    for number in range(40):
        name = list(COLORS)[number % 3]
        # Squares of other shades: the builder keeps near-copies of a picture in one split.
        shades = np.kron(rng.integers(-60, 60, (6, 6, 1)), np.ones((8, 8, 1)))
        pixels = np.full((48, 48, 3), COLORS[name]) + shades
        picture = PIL.Image.fromarray(pixels.clip(0, 255).astype(np.uint8))
        picture.save(folder / "own" / f"{number}.png")
        captions.append(f"a {name} wall, picture {number}")
        rows += [(f"{number}.png", text) for text in (captions[-1], f"{name} is wall {number}")]
        if number < 8:
            picture.save(folder / "pictures" / f"{number}.png")
    _write_csv(folder / "own" / "captions.csv", ("image", "caption"), rows)
    (folder / "captions.txt").write_text("\n".join(captions[:8]) + "\n")


def _write_model(folder: pathlib.Path) -> None:
    """Embeddings, scores and rankings of one model, and a table of word vectors."""
    rng = np.random.default_rng(1)
    images = rng.normal(size=(len(IMAGES), 6)).astype(np.float32)
    captions = np.repeat(images, 5, axis=0)
    captions += 0.8 * rng.normal(size=captions.shape).astype(np.float32)
    np.savez(
        folder / "tiny.npz",
        image_ids=IMAGES,
        image_embeddings=images,
        caption_ids=CAPTIONS,
        caption_embeddings=captions,
    )
    scores = images @ captions.T
    np.save(folder / "scores.npy", scores)
    ranked = {
        "i2t": _rank(scores, IMAGES, CAPTIONS),
        "t2i": _rank(scores.T, CAPTIONS, IMAGES),
    }
    (folder / "ranked.json").write_text(json.dumps(ranked))
    rows = (f"{word} {' '.join(map(str, rng.normal(size=4).round(4)))}" for word in COLORS)
    (folder / "vectors.txt").write_text("\n".join(rows) + "\n")


def _rank(scores: np.ndarray, queries: np.ndarray, items: np.ndarray) -> dict[str, list[int]]:
    order = np.argsort(-scores, axis=1, kind="stable")
    return {str(query): items[row].tolist() for query, row in zip(queries, order, strict=True)}


def _write_annotations(folder: pathlib.Path) -> None:
    """Labels in the formats released for MS-COCO."""
    folder.mkdir()
    rng = np.random.default_rng(2)
    names = {"image": "COCO_val2014_{:012d}.jpg", "caption": "COCO_val2014:sentid:{}"}

    def write(task: str, ends: str, left: np.ndarray, right: np.ndarray, method: str) -> None:
        kinds = ends.rstrip("12").split("-")
        columns = [f"{kinds[0]}1", f"{kinds[0]}2"] if len(kinds) == 1 else kinds
        first, second = names[kinds[0]], names[kinds[-1]]
        scores = rng.uniform(0, 5, len(left)).round(2)
        rows = [
            (first.format(a), second.format(b), score, method)
            for a, b, score in zip(left, right, scores, strict=True)
        ]
        _write_csv(folder / f"{task}_test.csv", (*columns, "agg_score", "sampling_method"), rows)

    write("sits", "caption-image", CAPTIONS, OWNERS, "c2i_original")
    write("sts", "caption", CAPTIONS, np.roll(CAPTIONS, 7), "c2c_isim")
    write("sis", "image", IMAGES, np.roll(IMAGES, 7), "i2i_csim")
    original = {str(c): [int(i)] for c, i in zip(CAPTIONS, OWNERS, strict=True)}
    lists = {
        "original_caption_to_image": original,
        "eccv_image_to_caption": {"101": [1010, 1011, 1032], "104": [1040, 1111, 1120]},
        "eccv_caption_to_image": {"1010": [101, 103], "1063": [106, 107, 108]},
    }
    for name, content in lists.items():
        (folder / f"{name}.json").write_text(json.dumps(content))
    (folder.parent / "truth.json").write_text(json.dumps({"101": [1010, 1012], "104": [1040]}))
    np.save(folder / "coco_test_ids.npy", CAPTIONS)
    labels = (rng.random((len(IMAGES), 80)) < 0.03).astype(np.uint8)
    labels[:, 0] = 1
    np.savez(folder / "val2014_categories.npz", image_ids=IMAGES, labels=labels)


def _write_judgments(folder: pathlib.Path) -> None:
    """Preferences, answers, and a table of models and metrics."""
    rng = np.random.default_rng(3)
    names = ("eccv/mean/map@r", "coco5k/mean/recall@1", "pmrp/mean")
    models = {
        f"model{number}": {name: round(rng.uniform(20, 60), 2) for name in names}
        for number in range(6)
    }
    (folder / "models.json").write_text(json.dumps(models))
    wins = [("a", "b"), ("a", "b"), ("b", "a"), ("b", "c"), ("c", "b"), ("a", "c"), ("c", "a")]
    _write_csv(folder / "preferences.csv", ("preferred", "rejected"), wins)
    answers = ("better", "worse", "both_good", "both_bad")
    rows = [
        (number // 3, answers[choice], "Story" if number < 30 else "Meta")
        for number, choice in enumerate(rng.integers(0, 4, 60))
    ]
    _write_csv(folder / "answers.csv", ("example", "answer", "group"), rows)


def _write_csv(path: pathlib.Path, header: Sequence[str], rows: Iterable[Sequence]) -> None:
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerows([header, *rows])
