"""A model for a dozen images: the files it would export, and a reader for its results."""

import csv
import json

import numpy as np

IMAGE_IDS = np.arange(101, 113)
CAPTION_IDS = (IMAGE_IDS[:, None] * 10 + np.arange(5)).ravel()
OWN_IMAGE = np.repeat(np.arange(12), 5)


def write_ratings(path, kinds, pairs):
    """Writes a file in the format of CxC; pairs are (left, right, score, method)."""
    columns = {"sts": ("caption1", "caption2"), "sis": ("image1", "image2")}
    names = {"image": "COCO_val2014_{:012d}.jpg", "caption": "COCO_val2014:sentid:{}"}
    with path.open("w", newline="") as file:
        rows = csv.writer(file)
        header = columns.get(path.name[:3], ("caption", "image"))
        rows.writerow([*header, "agg_score", "sampling_method"])
        for left, right, score, method in pairs:
            ends = [names[k].format(i) for k, i in zip(kinds, (left, right), strict=True)]
            rows.writerow([*ends, score, method])


def embeddings():
    """A model that is neither perfect nor random, with unsorted items."""
    rng = np.random.default_rng(3)
    images = rng.normal(size=(12, 6)).astype(np.float32)
    captions = images[OWN_IMAGE] + 0.8 * rng.normal(size=(60, 6)).astype(np.float32)
    at, caption_at = rng.permutation(12), rng.permutation(60)
    return {
        "image_ids": IMAGE_IDS[at],
        "image_embeddings": images[at],
        "caption_ids": CAPTION_IDS[caption_at],
        "caption_embeddings": captions[caption_at],
    }


def in_order(arrays):
    """Embeddings of images and captions in the order of the split."""
    return [
        arrays[f"{kind}_embeddings"][np.argsort(arrays[f"{kind}_ids"])]
        for kind in ("image", "caption")
    ]


def ranked_lists(scores, depth):
    order = np.argsort(-scores, axis=1, kind="stable")
    turned = np.argsort(-scores.T, axis=1, kind="stable")
    return {
        "i2t": {
            str(i): CAPTION_IDS[row[:depth]].tolist()
            for i, row in zip(IMAGE_IDS, order, strict=True)
        },
        "t2i": {
            str(c): IMAGE_IDS[row[:depth]].tolist()
            for c, row in zip(CAPTION_IDS, turned, strict=True)
        },
    }


def metrics_of(folder):
    return json.loads((folder / "metrics.json").read_text())
