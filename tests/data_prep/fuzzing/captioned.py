"""Layouts of captioned images: Flickr8k, COCO, Flickr30k, SCAN's features."""

import base64
import json
from collections.abc import Callable
from typing import Any

import h5py
import numpy as np

from tests.data_prep.fuzzing.contents import Images, text_of, write_csv, write_zip

_NAMES = {"train": ["b.jpg", "e.jpg"], "dev": ["d.jpg"], "test": ["a.jpg", "c.jpg"]}
_ALL = sorted(name for names in _NAMES.values() for name in names)
FLICKR8K_COUNTS = {"images": 5, "train": 2, "validation": 1, "test": 2, "expert": 1}


def flickr8k(folder: Any, images: Images) -> None:
    lines = [f"{name}#{k}\t{text_of(5 * n + k)}\n" for n, name in enumerate(_ALL) for k in range(5)]
    (folder / "Flickr8k.token.txt").write_text("".join(lines), encoding="utf-8")
    for split, names in _NAMES.items():
        (folder / f"Flickr_8k.{split}Images.txt").write_text("\n".join([*names, ""]))
    (folder / "ExpertAnnotations.txt").write_text(
        "a.jpg\tc.jpg#2\t1\t2\t2\nc.jpg\tc.jpg#2\t4\t4\t4\n"
    )
    (folder / "CrowdFlowerAnnotations.txt").write_text("c.jpg\tc.jpg#1\t0.75\t3\t1\n")
    write_zip(
        folder / "Flickr8k_Dataset.zip",
        {f"Flicker8k_Dataset/{name}": images(n) for n, name in enumerate(_ALL)},
    )


def flickr8k_tidy(folder: Any, images: Images) -> None:
    split_of = {name: split for split, names in _NAMES.items() for name in names}
    write_csv(
        folder / "captions.csv.gz",
        [
            {
                "image": name,
                "caption_idx": k,
                "split": split_of[name].replace("dev", "val"),
                "caption": text_of(5 * n + k),
            }
            for n, name in enumerate(_ALL)
            for k in range(5)
        ],
    )
    (folder / "expert_annotations.csv").write_text(
        "image,caption_image,caption_idx,rating1,rating2,rating3\n"
        "a.jpg,c.jpg,2,1,2,2\nc.jpg,c.jpg,2,4,4,4\n"
    )
    write_csv(
        folder / "crowdflower_annotations.csv.gz",
        [
            {
                "image": "c.jpg",
                "caption_image": "c.jpg",
                "caption_idx": 1,
                "yes_fraction": 0.75,
                "n_yes": 3,
                "n_no": 1,
            }
        ],
    )
    (folder / "Flickr8k_Dataset").mkdir()
    for number, name in enumerate(_ALL):
        (folder / "Flickr8k_Dataset" / name).write_bytes(images(number))
    features = np.arange(5 * 1280, dtype=np.float16).reshape(5, 1280) / 100
    np.savez(folder / "mobilenet_v2_features.npz", files=np.array(_ALL), features=features)


# COCO id -> Karpathy split and folder.
_COCO_IMAGES = {
    9: ("train", "train2014"),
    25: ("train", "train2014"),
    42: ("restval", "val2014"),
    73: ("val", "val2014"),
    74: ("test", "val2014"),
    133: ("test", "val2014"),
}
COCO_COUNTS = {
    "train": 2,
    "restval": 1,
    "val": 1,
    "test": 2,
    "train2014": 2,
    "val2014": 20,
    "captions": 30,
}


def karpathy(folder: Any, images: Images) -> None:
    records = [
        {
            "filepath": place,
            "filename": f"COCO_{place}_{number:012d}.jpg",
            "split": split,
            "cocoid": number,
            "imgid": n,
            "sentids": [10 * number + k for k in range(5)],
            "sentences": [
                {"raw": text_of(k), "tokens": [], "imgid": n, "sentid": 10 * number + k}
                for k in range(5)
            ],
        }
        for n, (number, (split, place)) in enumerate(_COCO_IMAGES.items())
    ]
    (folder / "dataset_coco.json").write_text(json.dumps({"images": records, "dataset": "coco"}))
    (folder / "train2014").mkdir()
    for n, record in enumerate(records[:2]):
        (folder / "train2014" / record["filename"]).write_bytes(images(n))
    pictures = {f"val2014/{r['filename']}": images(n) for n, r in enumerate(records) if n >= 2}
    write_zip(folder / "val2014.zip", pictures)
    np.savez(
        folder / "val2014_categories.npz",
        image_ids=np.array([42, 73, 74, 133], np.int32),
        labels=np.eye(4, 3, dtype=np.uint8),
        category_names=np.array(["dog", "cat", "toothbrush"]),
    )


def official_coco(folder: Any, images: Images) -> None:
    """All annotations in one archive, with the objects of every image, as on cocodataset.org."""
    files = {}
    parts = {"train2014": [9, 25], "val2014": list(range(40, 60))}
    for part, numbers in parts.items():
        names = {number: f"COCO_{part}_{number:012d}.jpg" for number in numbers}
        listed = [{"id": number, "file_name": name} for number, name in names.items()]
        captions = [
            {"image_id": number, "id": 10 * number + k, "caption": text_of(k)}
            for number in numbers
            for k in range(2)
        ]
        instances = [{"id": n, "image_id": n, "category_id": 18, "bbox": []} for n in numbers]
        objects = [{"id": 18, "name": "dog"}, {"id": 90, "name": "toothbrush"}]
        for name, content in (
            ("captions", {"images": listed, "annotations": captions}),
            ("instances", {"images": listed, "annotations": instances, "categories": objects}),
        ):
            files[f"annotations/{name}_{part}.json"] = json.dumps(content).encode()
        first = 0 if part == "train2014" else 2
        pictures = {f"{part}/{name}": images(n) for n, name in enumerate(names.values(), first)}
        write_zip(folder / f"{part}.zip", pictures)
    write_zip(folder / "annotations_trainval2014.zip", files)


def plain_captions(folder: Any, images: Images) -> None:
    del images
    rows = [
        {
            "caption_id": 10 * number + k,
            "image_id": number,
            "karpathy_split": split,
            "in_karpathy5": 1,
            "caption": text_of(k),
        }
        for number, (split, _) in _COCO_IMAGES.items()
        for k in range(5)
    ]
    write_csv(folder / "captions_known.csv.gz", rows)
    lines = [
        {"image_id": 26 + n, "karpathy_split": "train", "captions": [text_of(n), text_of(n + 1)]}
        for n in range(3)
    ]
    text = "".join(json.dumps(line) + "\n" for line in lines)
    (folder / "captions_more.jsonl").write_text(text)


_FLICKR30K_SPLITS = ("train", "train", "val", "test")
FLICKR30K_COUNTS = {"train": 2, "validation": 1, "test": 1, "captions": 20}


def flickr30k(folder: Any, images: Images) -> None:
    names = [f"{1000 + n}.jpg" for n in range(4)]
    records = [
        {
            "split": split,
            "filename": name,
            "imgid": n,
            "sentids": [5 * n + k for k in range(5)],
            "sentences": [{"raw": text_of(5 * n + k), "sentid": 5 * n + k} for k in range(5)],
        }
        for n, (split, name) in enumerate(zip(_FLICKR30K_SPLITS, names, strict=True))
    ]
    (folder / "dataset_flickr30k.json").write_text(json.dumps({"images": records}))
    lines = [
        f"{name}#{k}\t{text_of(5 * n + k)}\n" for n, name in enumerate(names) for k in range(5)
    ]
    (folder / "results_20130124.token").write_text("".join(lines), encoding="utf-8")
    for split in ("train", "val", "test"):
        chosen = [
            name[:-4] for name, of in zip(names, _FLICKR30K_SPLITS, strict=True) if of == split
        ]
        (folder / f"{split}.txt").write_text("".join(f"{name}\n" for name in chosen))
    write_zip(folder / "flickr30k-images.zip", {name: images(n) for n, name in enumerate(names)})


def detections(layout: str) -> Callable[[Any, Images], None]:
    """Detected regions, any number per image, of the images of `karpathy`."""

    def write(folder: Any, images: Images) -> None:
        karpathy(folder, images)
        (folder / "features").mkdir()
        path, rng, rows = folder / "features" / f"trainval.{layout}", np.random.default_rng(0), []
        for count, image_id in enumerate(_COCO_IMAGES, 1):
            features = rng.random((count, 2048), np.float32)
            boxes = np.zeros((count, 4), np.float32)
            if layout == "npz":
                name = folder / "features" / str(image_id)
                np.savez(name, x=features, bbox=boxes, num_bbox=count)
            elif layout == "hdf5":
                with h5py.File(path, "a") as file:
                    file[f"{image_id}_features"], file[f"{image_id}_boxes"] = features, boxes
            else:
                encoded = [base64.b64encode(each.tobytes()).decode() for each in (boxes, features)]
                rows.append("\t".join([str(image_id), "640", "480", str(count), *encoded]))
        if rows:
            path.write_text("".join(f"{row}\r\n" for row in rows), newline="")

    return write


def regions(folder: Any, images: Images) -> None:
    del images
    rng = np.random.default_rng(0)
    for split, count in (("train", 3), ("dev", 2), ("test", 2)):
        np.save(folder / f"{split}_ims.npy", rng.random((count, 36, 2048), np.float32))
        text = "".join(f"{text_of(line)}\n" for line in range(5 * count))
        (folder / f"{split}_caps.txt").write_text(text, encoding="utf-8")
