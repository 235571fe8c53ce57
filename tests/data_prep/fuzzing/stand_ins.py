"""Tiny stand-ins of all published layouts that the builders read, with the counts to expect."""

import csv
import dataclasses
import gzip
import io
import json
import zipfile
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import PIL.Image

from data_prep.semeval_sts.rated_sets import RatedSet
from tests.data_prep import img2dataset
from tests.data_prep.pinterest import python2_arrays

_FLICKR8K = "data_prep.flickr8k.flickr8k_dataset_builder.Builder"
_COCO = "data_prep.coco_captions.coco_captions_dataset_builder.Builder"
_CXC = "data_prep.cxc.cxc_dataset_builder.Builder"
_ECCV = "data_prep.eccv_labels.eccv_labels_dataset_builder.Builder"
_CLUE = "data_prep.clue.clue_dataset_builder.Builder"
_CITE = "data_prep.cite.cite_dataset_builder.Builder"
_CC = "data_prep.conceptual_captions.conceptual_captions_dataset_builder.Builder"
_SBU = "data_prep.sbu.sbu_dataset_builder.Builder"
_PINTEREST = "data_prep.pinterest.pinterest_dataset_builder.Builder"
_FLICKR30K = "data_prep.flickr30k.flickr30k_dataset_builder.Builder"
_SEMEVAL = "data_prep.semeval_sts"

Images = Callable[[int], bytes]


@dataclasses.dataclass(frozen=True)
class StandIn:
    """The files of one builder config.

    Attributes:
      dataset: key of `data_prep.BUILDERS`.
      config: builder config.
      write: writes the files into a folder; image number n holds `images(n)`.
      patches: what to set so that the builder expects these few records.
      num_images: how many images there are, 0 without pixels.
      is_counted: whether the published counts fix how many records there must be.
    """

    dataset: str
    config: str
    write: Callable[[Any, Images], None]
    patches: Mapping[str, Any]
    num_images: int = 0
    is_counted: bool = True
    layout: str = ""

    def __str__(self) -> str:
        return "-".join(filter(None, (self.dataset, self.config, self.layout)))


def photograph(number: int) -> bytes:
    """A small sound JPEG, another one for every number."""
    pixels = np.random.default_rng(number).integers(0, 256, (6, 8, 3)).astype(np.uint8)
    file = io.BytesIO()
    PIL.Image.fromarray(pixels).resize((24, 18)).save(file, "JPEG")
    return file.getvalue()


def _text(number: int) -> str:
    return f'Bild {number}, "naïve" # {number}'


def _zip(path: Any, files: Mapping[str, bytes]) -> None:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(name, content)


def _csv(path: Any, rows: list[dict[str, Any]], delimiter: str = ",") -> None:
    text = io.StringIO(newline="")
    writer = csv.DictWriter(text, list(rows[0]), delimiter=delimiter)
    writer.writeheader()
    writer.writerows(rows)
    encoded = text.getvalue().encode()
    path.write_bytes(gzip.compress(encoded, mtime=0) if path.suffix == ".gz" else encoded)


_NAMES = {"train": ["b.jpg", "e.jpg"], "dev": ["d.jpg"], "test": ["a.jpg", "c.jpg"]}
_ALL = sorted(name for names in _NAMES.values() for name in names)
_FLICKR8K_COUNTS = {"images": 5, "train": 2, "validation": 1, "test": 2, "expert": 1}


def _flickr8k(folder: Any, images: Images) -> None:
    lines = [f"{name}#{k}\t{_text(5 * n + k)}\n" for n, name in enumerate(_ALL) for k in range(5)]
    (folder / "Flickr8k.token.txt").write_text("".join(lines), encoding="utf-8")
    for split, names in _NAMES.items():
        (folder / f"Flickr_8k.{split}Images.txt").write_text("\n".join([*names, ""]))
    (folder / "ExpertAnnotations.txt").write_text(
        "a.jpg\tc.jpg#2\t1\t2\t2\nc.jpg\tc.jpg#2\t4\t4\t4\n"
    )
    (folder / "CrowdFlowerAnnotations.txt").write_text("c.jpg\tc.jpg#1\t0.75\t3\t1\n")
    _zip(
        folder / "Flickr8k_Dataset.zip",
        {f"Flicker8k_Dataset/{name}": images(n) for n, name in enumerate(_ALL)},
    )


def _flickr8k_tidy(folder: Any, images: Images) -> None:
    split_of = {name: split for split, names in _NAMES.items() for name in names}
    _csv(
        folder / "captions.csv.gz",
        [
            {
                "image": name,
                "caption_idx": k,
                "split": split_of[name].replace("dev", "val"),
                "caption": _text(5 * n + k),
            }
            for n, name in enumerate(_ALL)
            for k in range(5)
        ],
    )
    (folder / "expert_annotations.csv").write_text(
        "image,caption_image,caption_idx,rating1,rating2,rating3\n"
        "a.jpg,c.jpg,2,1,2,2\nc.jpg,c.jpg,2,4,4,4\n"
    )
    _csv(
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
_COCO_COUNTS = {
    "train": 2,
    "restval": 1,
    "val": 1,
    "test": 2,
    "train2014": 2,
    "val2014": 20,
    "captions": 30,
}


def _karpathy(folder: Any, images: Images) -> None:
    records = [
        {
            "filepath": place,
            "filename": f"COCO_{place}_{number:012d}.jpg",
            "split": split,
            "cocoid": number,
            "imgid": n,
            "sentids": [10 * number + k for k in range(5)],
            "sentences": [
                {"raw": _text(k), "tokens": [], "imgid": n, "sentid": 10 * number + k}
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
    _zip(folder / "val2014.zip", pictures)
    np.savez(
        folder / "val2014_categories.npz",
        image_ids=np.array([42, 73, 74, 133], np.int32),
        labels=np.eye(4, 3, dtype=np.uint8),
        category_names=np.array(["dog", "cat", "toothbrush"]),
    )


def _official_coco(folder: Any, images: Images) -> None:
    """All annotations in one archive, with the objects of every image, as cocodataset.org has."""
    files = {}
    parts = {"train2014": [9, 25], "val2014": list(range(40, 60))}
    for part, numbers in parts.items():
        names = {number: f"COCO_{part}_{number:012d}.jpg" for number in numbers}
        listed = [{"id": number, "file_name": name} for number, name in names.items()]
        captions = [
            {"image_id": number, "id": 10 * number + k, "caption": _text(k)}
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
        _zip(folder / f"{part}.zip", pictures)
    _zip(folder / "annotations_trainval2014.zip", files)


def _plain_captions(folder: Any, images: Images) -> None:
    del images
    rows = [
        {
            "caption_id": 10 * number + k,
            "image_id": number,
            "karpathy_split": split,
            "in_karpathy5": 1,
            "caption": _text(k),
        }
        for number, (split, _) in _COCO_IMAGES.items()
        for k in range(5)
    ]
    _csv(folder / "captions_known.csv.gz", rows)
    lines = [
        {"image_id": 26 + n, "karpathy_split": "train", "captions": [_text(n), _text(n + 1)]}
        for n in range(3)
    ]
    text = "".join(json.dumps(line) + "\n" for line in lines)
    (folder / "captions_more.jsonl").write_text(text)


_CXC_CAPTIONS = [740, 741, 742, 1330, 1331]
_CXC_COUNTS = {
    "sts/validation/c2c_cocaption": 5,
    "sts/test/c2c_cocaption": 5,
    "sits/validation/c2i_original": 5,
    "sits/test/c2i_original": 5,
}


def _cxc(folder: Any, images: Images) -> None:
    captions = [f"COCO_val2014:sentid:{number}" for number in _CXC_CAPTIONS]
    pictures = [f"COCO_val2014_{number // 10:012d}.jpg" for number in _CXC_CAPTIONS]
    for part in ("val", "test"):
        common = [
            {"agg_score": n / 2 + 0.125, "sampling_method": "c2c_cocaption"} for n in range(5)
        ]
        _csv(
            folder / f"sts_{part}.csv",
            [
                {"caption1": a, "caption2": b} | row
                for a, b, row in zip(captions, captions[1:] + captions[:1], common, strict=True)
            ],
        )
        _csv(
            folder / f"sits_{part}.csv",
            [
                {"caption": a, "image": b} | row | {"sampling_method": "c2i_original"}
                for a, b, row in zip(captions, pictures, common, strict=True)
            ],
        )
    _csv(
        folder / "captions_known.csv.gz",
        [{"caption_id": number, "caption": _text(number)} for number in _CXC_CAPTIONS],
    )
    _zip(
        folder / "val2014.zip",
        {f"val2014/{name}": images(n) for n, name in enumerate(dict.fromkeys(pictures))},
    )


_SETS = (
    RatedSet(2012, "MSRpar", "train", 2),
    RatedSet(2014, "images", "test", 3),
    RatedSet(2016, "headlines", "test", 2),
)
_SEMEVAL_PATCHES = {
    f"{_SEMEVAL}.{module}.SETS": _SETS
    for module in ("rated_sets", "semeval_files", "semeval_sts_dataset_builder")
} | {
    f"{_SEMEVAL}.semeval_sts_dataset_builder.Builder.EXPECTED": {
        str(each): each.pairs for each in _SETS
    }
}


def _semeval_official(folder: Any, images: Images) -> None:
    del images
    for each in _SETS:
        place = folder / str(each.year) / each.split
        place.mkdir(parents=True)
        lines = [f"{_text(n)}\tzweitens {n}\n" for n in range(each.pairs)]
        (place / f"STS.input.{each.name}.txt").write_text("".join(lines), encoding="utf-8")
        scores = "".join(f"{n % 5}.5\n" for n in range(each.pairs))
        (place / f"STS.gs.{each.name}.txt").write_text(scores)


def _semeval_pasted(folder: Any, images: Images) -> None:
    del images
    for each in _SETS:
        (folder / str(each.year)).mkdir()
        lines = [f"{n % 5}.25\t{_text(n)}\tzweitens {n}\n" for n in range(each.pairs)]
        lines.insert(1, "\tnever\trated\n")
        path = folder / str(each.year) / f"{each.name}.{each.split}.tsv"
        path.write_text("".join(lines), encoding="utf-8")


def _semeval_table(folder: Any, images: Images) -> None:
    del images
    _csv(
        folder / "semeval_sts_2012_2016.csv.gz",
        [
            {
                "year": each.year,
                "dataset": each.name,
                "split": each.split,
                "score": n % 5,
                "sentence1": _text(n),
                "sentence2": f"zweitens {n}",
            }
            for each in _SETS
            for n in range(each.pairs)
        ],
    )


_ECCV_CAPTIONS = {9: [90, 91, 92, 93, 94], 7: [70, 71, 72, 73, 74]}
_ECCV_COUNTS = {
    "images": 2,
    "captions": 10,
    "eccv/i2t/queries": 2,
    "eccv/i2t/positives": 4,
    "eccv/i2t/unreachable": 1,
    "eccv/t2i/queries": 1,
    "eccv/t2i/positives": 2,
    "eccv/t2i/unreachable": 0,
}


def _eccv(folder: Any, images: Images) -> None:
    del images
    own = {str(c): [image] for image, group in _ECCV_CAPTIONS.items() for c in group}
    files = {
        "eccv_image_to_caption.json": {"9": [90, 72, 99], "7": [70]},
        "eccv_caption_to_image.json": {"91": [9, 7]},
        "original_caption_to_image.json": own,
    }
    for name, content in files.items():
        (folder / name).write_text(json.dumps(content))
    np.save(folder / "coco_test_ids.npy", np.array(list(map(int, own))))


_RELATIONS = ("Visible", "Subjective", "Action", "Story", "Meta", "Irrelevant", "Other", "When")
_CLUE_ROWS = {"train": 4, "test": 3}
_CLUE_COUNTS = dict(_CLUE_ROWS)


def _clue(folder: Any, images: Images) -> None:
    number = 0
    (folder / "images").mkdir()
    for split, count in _CLUE_ROWS.items():
        rows = []
        for _ in range(count):
            url = f"http://example.org/{number}.jpg"
            labels = {name: int((number + k) % 3 == 0) for k, name in enumerate(_RELATIONS)}
            labels |= {"How": 1, "Where": 0, "Comment": ""}
            rows.append({"": number, "index": number, "caption": _text(number), "url": url})
            rows[-1] |= labels
            (folder / "images" / f"{number}.jpg").write_bytes(images(number))
            number += 1
        _csv(folder / f"conceptual_{split}_dis.csv", rows)
    urls = {f"http://example.org/{n}.jpg": n for n in range(number)}
    (folder / "img2idxmap.json").write_text(json.dumps(urls))


def _cite(folder: Any, images: Images) -> None:
    rows = [
        {"": n, "Index": n, "q1_resp": "span"}
        | {f"q{k}_resp": str((n + k) % 2 == 0) for k in range(2, 9)}
        | {"qimg": f"soup_{n}.jpg", "stim_id": n, "stim_txt": _text(n), "complement": ""}
        for n in range(5)
    ]
    _csv(folder / "data.csv", rows, "|")
    _csv(folder / "q2-8_train_dis_11-08.csv", rows[:3])
    _csv(folder / "q2-8_test_dis_11-08.csv", rows[3:])
    (folder / "images").mkdir()
    for n in range(5):
        (folder / "images" / f"soup_{n}.jpg").write_bytes(images(n))


def _conceptual(output_format: str) -> Callable[[Any, Images], None]:
    def write(folder: Any, images: Images) -> None:
        first = 0
        for name, part, count in (
            ("Train_GCC-training.tsv", "training", 5),
            ("Validation_GCC-1.1.0-Validation.tsv", "validation", 3),
        ):
            rows = [(_text(n), f"http://example.org/{n}.jpg") for n in range(first, first + count)]
            text = "".join(f"{caption}\t{url}\n" for caption, url in rows)
            (folder / name).write_text(text, encoding="utf-8")
            numbered = enumerate(rows, first)
            if output_format == "names":
                (folder / part).mkdir()
                for n, _ in numbered:
                    (folder / part / f"{n - first}.jpg").write_bytes(images(n))
            else:
                fetched = [(url, caption, images(n)) for n, (caption, url) in numbered]
                img2dataset.write(folder / part, fetched, output_format, per_shard=3)
            first += count

    return write


def _sbu(folder: Any, images: Images) -> None:
    urls = [f"http://static.flickr.com/{n}/{n}_o.jpg" for n in range(8)]
    for name, lines in (("urls", urls), ("captions", map(_text, range(8)))):
        text = "".join(f"{line}\n" for line in lines)
        (folder / f"SBU_captioned_photo_dataset_{name}.txt").write_text(text, encoding="utf-8")
    (folder / "images").mkdir()
    for n in range(8):
        (folder / "images" / f"{n}.jpg").write_bytes(images(n))


def _pinterest(folder: Any, images: Images) -> None:
    lists, pictures = folder / "pinterest_multimodal_2016_v1", folder / "images"
    lists.mkdir()
    pictures.mkdir()
    for file in range(3):
        pins = [
            {
                "image_name": f"pin_image_{10 * file + n:09d}.jpg",
                "url": f"http://media-cache.pinimg.com/{10 * file + n}.jpg",
                "sentences": [f"owl {n}", "naïve hibou"],
            }
            for n in range(2)
        ]
        python2_arrays.write(lists / f"pin_2016_v1_{file:04d}.npy", pins)
        for n, pin in enumerate(pins):
            (pictures / pin["image_name"]).write_bytes(images(2 * file + n))


_FLICKR30K_SPLITS = ("train", "train", "val", "test")
_FLICKR30K_COUNTS = {"train": 2, "validation": 1, "test": 1, "captions": 20}


def _flickr30k(folder: Any, images: Images) -> None:
    names = [f"{1000 + n}.jpg" for n in range(4)]
    records = [
        {
            "split": split,
            "filename": name,
            "imgid": n,
            "sentids": [5 * n + k for k in range(5)],
            "sentences": [{"raw": _text(5 * n + k), "sentid": 5 * n + k} for k in range(5)],
        }
        for n, (split, name) in enumerate(zip(_FLICKR30K_SPLITS, names, strict=True))
    ]
    (folder / "dataset_flickr30k.json").write_text(json.dumps({"images": records}))
    lines = [f"{name}#{k}\t{_text(5 * n + k)}\n" for n, name in enumerate(names) for k in range(5)]
    (folder / "results_20130124.token").write_text("".join(lines), encoding="utf-8")
    for split in ("train", "val", "test"):
        chosen = [
            name[:-4] for name, of in zip(names, _FLICKR30K_SPLITS, strict=True) if of == split
        ]
        (folder / f"{split}.txt").write_text("".join(f"{name}\n" for name in chosen))
    _zip(folder / "flickr30k-images.zip", {name: images(n) for n, name in enumerate(names)})


def _regions(folder: Any, images: Images) -> None:
    del images
    rng = np.random.default_rng(0)
    for split, count in (("train", 3), ("dev", 2), ("test", 2)):
        np.save(folder / f"{split}_ims.npy", rng.random((count, 36, 2048), np.float32))
        text = "".join(f"{_text(line)}\n" for line in range(5 * count))
        (folder / f"{split}_caps.txt").write_text(text, encoding="utf-8")


STAND_INS = (
    StandIn("flickr8k", "images", _flickr8k, {f"{_FLICKR8K}.EXPECTED": _FLICKR8K_COUNTS}, 5),
    StandIn(
        "flickr8k",
        "images",
        _flickr8k_tidy,
        {f"{_FLICKR8K}.EXPECTED": _FLICKR8K_COUNTS},
        5,
        layout="tidy",
    ),
    StandIn("flickr8k", "ratings", _flickr8k, {f"{_FLICKR8K}.EXPECTED": _FLICKR8K_COUNTS}),
    StandIn("flickr8k", "features", _flickr8k_tidy, {f"{_FLICKR8K}.EXPECTED": _FLICKR8K_COUNTS}),
    StandIn("coco_captions", "images", _karpathy, {f"{_COCO}.EXPECTED": _COCO_COUNTS}, 6),
    StandIn(
        "coco_captions",
        "im2txt",
        _official_coco,
        {f"{_COCO}.EXPECTED": _COCO_COUNTS | {"captions": 44}},
        22,
    ),
    StandIn("coco_captions", "captions", _plain_captions, {}, is_counted=False),
    StandIn("cxc", "sts_captions", _cxc, {f"{_CXC}.EXPECTED": _CXC_COUNTS}),
    StandIn("cxc", "sits_images", _cxc, {f"{_CXC}.EXPECTED": _CXC_COUNTS}, 2),
    StandIn("semeval_sts", "pairs", _semeval_official, _SEMEVAL_PATCHES, layout="official"),
    StandIn("semeval_sts", "pairs", _semeval_pasted, _SEMEVAL_PATCHES, layout="pasted"),
    StandIn("semeval_sts", "pairs", _semeval_table, _SEMEVAL_PATCHES, layout="table"),
    StandIn("eccv_labels", "eccv", _eccv, {f"{_ECCV}.EXPECTED": _ECCV_COUNTS}),
    StandIn("clue", "labels", _clue, {f"{_CLUE}.EXPECTED": _CLUE_COUNTS}),
    StandIn("clue", "images", _clue, {f"{_CLUE}.EXPECTED": _CLUE_COUNTS}, 7),
    StandIn("cite", "labels", _cite, {f"{_CITE}.EXPECTED": {"train": 5}}),
    StandIn("cite", "plus_images", _cite, {f"{_CITE}.EXPECTED_PLUS": {"train": 3, "test": 2}}, 5),
    *(
        StandIn(
            "conceptual_captions",
            "images",
            _conceptual(layout),
            {f"{_CC}.EXPECTED": {"train": 5, "validation": 3}},
            8,
            layout=layout,
        )
        for layout in ("webdataset", "parquet", "names")
    ),
    StandIn("sbu", "images", _sbu, {f"{_SBU}.EXPECTED": {"rows": 8}, f"{_SBU}.HELD_OUT": 2}, 8),
    StandIn(
        "pinterest",
        "images",
        _pinterest,
        {
            f"{_PINTEREST}.FILES": {"train": range(1), "validation": [1], "test": [2]},
            f"{_PINTEREST}.EXPECTED": {f"pin_2016_v1_{n:04d}.npy": 2 for n in range(3)},
        },
        6,
    ),
    *(
        StandIn(
            "flickr30k",
            config,
            _flickr30k,
            {
                f"{_FLICKR30K}.EXPECTED": {
                    "karpathy": _FLICKR30K_COUNTS,
                    "entities": _FLICKR30K_COUNTS,
                }
            },
            4,
        )
        for config in ("images", "entities")
    ),
    StandIn("region_features", "regions", _regions, {}, is_counted=False),
)
