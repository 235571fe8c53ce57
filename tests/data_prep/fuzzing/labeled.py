"""Layouts of ratings and labels: CxC, SemEval STS, ECCV Caption, Clue, CITE."""

import json
from typing import Any

import numpy as np

from data_prep.semeval_sts.rated_sets import RatedSet
from tests.data_prep.fuzzing.contents import Images, text_of, write_csv, write_zip

_CXC_CAPTIONS = [740, 741, 742, 1330, 1331]
CXC_COUNTS = {
    "sts/validation/c2c_cocaption": 5,
    "sts/test/c2c_cocaption": 5,
    "sits/validation/c2i_original": 5,
    "sits/test/c2i_original": 5,
}


def cxc(folder: Any, images: Images) -> None:
    captions = [f"COCO_val2014:sentid:{number}" for number in _CXC_CAPTIONS]
    pictures = [f"COCO_val2014_{number // 10:012d}.jpg" for number in _CXC_CAPTIONS]
    for part in ("val", "test"):
        common = [
            {"agg_score": n / 2 + 0.125, "sampling_method": "c2c_cocaption"} for n in range(5)
        ]
        write_csv(
            folder / f"sts_{part}.csv",
            [
                {"caption1": a, "caption2": b} | row
                for a, b, row in zip(captions, captions[1:] + captions[:1], common, strict=True)
            ],
        )
        write_csv(
            folder / f"sits_{part}.csv",
            [
                {"caption": a, "image": b} | row | {"sampling_method": "c2i_original"}
                for a, b, row in zip(captions, pictures, common, strict=True)
            ],
        )
    write_csv(
        folder / "captions_known.csv.gz",
        [{"caption_id": number, "caption": text_of(number)} for number in _CXC_CAPTIONS],
    )
    write_zip(
        folder / "val2014.zip",
        {f"val2014/{name}": images(n) for n, name in enumerate(dict.fromkeys(pictures))},
    )


_SETS = (
    RatedSet(2012, "MSRpar", "train", 2),
    RatedSet(2014, "images", "test", 3),
    RatedSet(2016, "headlines", "test", 2),
)
SEMEVAL_PATCHES = {
    f"data_prep.semeval_sts.{module}.SETS": _SETS
    for module in ("rated_sets", "semeval_files", "semeval_sts_dataset_builder")
} | {
    "data_prep.semeval_sts.semeval_sts_dataset_builder.Builder.EXPECTED": {
        str(each): each.pairs for each in _SETS
    }
}


def semeval_official(folder: Any, images: Images) -> None:
    del images
    for each in _SETS:
        place = folder / str(each.year) / each.split
        place.mkdir(parents=True)
        lines = [f"{text_of(n)}\tzweitens {n}\n" for n in range(each.pairs)]
        (place / f"STS.input.{each.name}.txt").write_text("".join(lines), encoding="utf-8")
        scores = "".join(f"{n % 5}.5\n" for n in range(each.pairs))
        (place / f"STS.gs.{each.name}.txt").write_text(scores)


def semeval_pasted(folder: Any, images: Images) -> None:
    del images
    for each in _SETS:
        (folder / str(each.year)).mkdir()
        lines = [f"{n % 5}.25\t{text_of(n)}\tzweitens {n}\n" for n in range(each.pairs)]
        lines.insert(1, "\tnever\trated\n")
        path = folder / str(each.year) / f"{each.name}.{each.split}.tsv"
        path.write_text("".join(lines), encoding="utf-8")


def semeval_table(folder: Any, images: Images) -> None:
    del images
    write_csv(
        folder / "semeval_sts_2012_2016.csv.gz",
        [
            {
                "year": each.year,
                "dataset": each.name,
                "split": each.split,
                "score": n % 5,
                "sentence1": text_of(n),
                "sentence2": f"zweitens {n}",
            }
            for each in _SETS
            for n in range(each.pairs)
        ],
    )


_ECCV_CAPTIONS = {9: [90, 91, 92, 93, 94], 7: [70, 71, 72, 73, 74]}
ECCV_COUNTS = {
    "images": 2,
    "captions": 10,
    "eccv/i2t/queries": 2,
    "eccv/i2t/positives": 4,
    "eccv/i2t/unreachable": 1,
    "eccv/t2i/queries": 1,
    "eccv/t2i/positives": 2,
    "eccv/t2i/unreachable": 0,
}


def eccv(folder: Any, images: Images) -> None:
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
CLUE_COUNTS = dict(_CLUE_ROWS)


def clue(folder: Any, images: Images) -> None:
    number = 0
    (folder / "images").mkdir()
    for split, count in _CLUE_ROWS.items():
        rows = []
        for _ in range(count):
            url = f"http://example.org/{number}.jpg"
            labels = {name: int((number + k) % 3 == 0) for k, name in enumerate(_RELATIONS)}
            labels |= {"How": 1, "Where": 0, "Comment": ""}
            rows.append({"": number, "index": number, "caption": text_of(number), "url": url})
            rows[-1] |= labels
            (folder / "images" / f"{number}.jpg").write_bytes(images(number))
            number += 1
        write_csv(folder / f"conceptual_{split}_dis.csv", rows)
    urls = {f"http://example.org/{n}.jpg": n for n in range(number)}
    (folder / "img2idxmap.json").write_text(json.dumps(urls))


def cite(folder: Any, images: Images) -> None:
    rows = [
        {"": n, "Index": n, "q1_resp": "span"}
        | {f"q{k}_resp": str((n + k) % 2 == 0) for k in range(2, 9)}
        | {"qimg": f"soup_{n}.jpg", "stim_id": n, "stim_txt": text_of(n), "complement": ""}
        for n in range(5)
    ]
    write_csv(folder / "data.csv", rows, "|")
    write_csv(folder / "q2-8_train_dis_11-08.csv", rows[:3])
    write_csv(folder / "q2-8_test_dis_11-08.csv", rows[3:])
    (folder / "images").mkdir()
    for n in range(5):
        (folder / "images" / f"soup_{n}.jpg").write_bytes(images(n))
