"""Typical user folders of pictures and captions."""

import csv
import io
import json
import tarfile

import numpy as np
import PIL.Image
import pyarrow
import pyarrow.parquet

from data_prep.build import build
from data_prep.building.record_counts import LeftOut
from data_prep.captioned_images.captioned_pictures import ReadingOptions
from data_prep.captioned_images.layouts import find_layout
from data_prep.prepared import read_columns

NUMBERS = list(range(30))
FEW = [0, 1, 2]


def prepare(folder, config="images", **options):
    """Prepares a folder beside it."""
    return build(
        "captioned_images", config, data_dir=f"{folder}_tfds", manual_dir=str(folder), **options
    )


def stored_pictures(builder):
    """Name of every picture of a prepared folder -> its split and captions."""
    return {
        picture.decode(): (split, [text.decode() for text in texts])
        for split in builder.info.splits
        for picture, texts in zip(
            *read_columns(builder, split, ["picture", "captions"]).values(), strict=True
        )
    }


def rows(*others):
    """Name and caption of every picture, and additional rows."""
    return [*([name(n), f"caption {n}"] for n in NUMBERS), *others]


def picture(number, size=(40, 30), kind="PNG", mode="RGB", **options):
    """A unique picture: random colors in a coarse grid."""
    rng = np.random.default_rng(number)
    grid = PIL.Image.fromarray(rng.integers(0, 256, (4, 4, 3), np.uint8))
    image = grid.resize(size, PIL.Image.Resampling.BICUBIC).convert(mode)
    file = io.BytesIO()
    image.save(file, kind, **options)
    return file.getvalue()


def captions(number):
    """Two captions of a picture."""
    return [f"picture {number}, of a child", f"number {number} again"]


def name(number):
    """Name of the file of a picture."""
    return f"p{number:03d}.png"


def write_images(folder, numbers, place="images"):
    """Writes the pictures with these numbers."""
    (folder / place).mkdir(parents=True, exist_ok=True)
    for number in numbers:
        (folder / place / name(number)).write_bytes(picture(number))


def write_csv(path, rows, delimiter=",", encoding="utf-8", quoting=csv.QUOTE_MINIMAL):
    """Writes rows; the first is the header."""
    with path.open("w", newline="", encoding=encoding) as file:
        csv.writer(file, delimiter=delimiter, quoting=quoting).writerows(rows)


def wide_csv(folder, numbers):
    write_images(folder, numbers)
    lines = [[f"images/{name(n)}", *captions(n)] for n in numbers]
    write_csv(folder / "all.csv", [["file_name", "caption_1", "caption_2"], *lines])


def long_tsv(folder, numbers):
    write_images(folder, numbers)
    rows = [[name(n), text] for n in numbers for text in captions(n)]
    write_csv(folder / "all.tsv", [["Image", "Caption"], *rows], delimiter="\t")


def excel_csv(folder, numbers):
    """Semicolons, a byte-order mark, an extension in upper case, and Windows paths."""
    write_images(folder, numbers)
    lines = [[f"images\\{name(n)}", *captions(n)] for n in numbers]
    header = ["Image", "Caption 1", "Caption 2"]
    write_csv(folder / "ALL.CSV", [header, *lines], delimiter=";", encoding="utf-8-sig")


def json_lines(folder, numbers):
    write_images(folder, numbers, "train_set_of_nobody")
    lines = [
        json.dumps({"file_name": f"train_set_of_nobody/{name(n)}", "caption": captions(n)})
        for n in numbers
    ]
    (folder / "metadata.jsonl").write_text("\n".join(lines))


def coco_json(folder, numbers):
    write_images(folder, numbers)
    images = [{"id": n, "file_name": name(n)} for n in numbers]
    notes = [{"image_id": n, "caption": text} for n in numbers for text in captions(n)]
    (folder / "captions.json").write_text(json.dumps({"images": images, "annotations": notes}))


def karpathy_json(folder, numbers):
    write_images(folder, numbers)
    images = [
        {"filename": name(n), "sentences": [{"raw": text} for text in captions(n)]} for n in numbers
    ]
    (folder / "dataset.json").write_text(json.dumps({"images": images}))


def parquet_of_paths(folder, numbers):
    write_images(folder, numbers)
    rows = [{"file_name": f"images/{name(n)}", "captions": captions(n)} for n in numbers]
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), folder / "table.parquet")


def hugging_face(folder, numbers):
    (folder / "data").mkdir()
    for part, some in enumerate((numbers[::2], numbers[1::2])):
        items = [
            {"image": {"bytes": picture(n), "path": name(n)}, "caption": captions(n)} for n in some
        ]
        table = pyarrow.Table.from_pylist(items)
        pyarrow.parquet.write_table(table, folder / "data" / f"part-{part}-of-2.parquet")


def text_beside(folder, numbers):
    write_images(folder, numbers, "a/b")
    for n in numbers:
        path = folder / "a" / "b" / name(n).replace(".png", ".txt")
        path.write_text("\n".join(captions(n)) + "\n", encoding="utf-8-sig")


def web_dataset(folder, numbers):
    for shard, some in enumerate((numbers[::2], numbers[1::2])):
        with tarfile.open(folder / f"{shard:05d}.tar", "w") as archive:
            for place, n in enumerate(some):
                for ending, content in (
                    ("png", picture(n)),
                    ("txt", "\n".join(captions(n)).encode()),
                ):
                    member = tarfile.TarInfo(f"{place:05d}.{ending}")
                    member.size = len(content)
                    archive.addfile(member, io.BytesIO(content))


LAYOUTS = (
    wide_csv,
    long_tsv,
    excel_csv,
    json_lines,
    coco_json,
    karpathy_json,
    parquet_of_paths,
    hugging_face,
    text_beside,
    web_dataset,
)


def read_layout(folder, **options):
    """Captions of each picture read, and reasons of each path left out."""
    items = list(find_layout(folder, ReadingOptions(**options)).read())
    found = {i.name: list(i.captions) for i in items if not isinstance(i, LeftOut)}
    return found, {i.where: i.reason for i in items if isinstance(i, LeftOut)}


def captions_at(place):
    return {f"{place}{name(n)}": [f"caption {n}"] for n in FEW}


def coco(names=None):
    return {
        "info": {},
        "images": [{"id": 10 + n, "file_name": name(n)} for n in (*FEW, 3)],
        "annotations": [
            *({"image_id": 10 + n, "id": n, "caption": f"caption {n}"} for n in FEW),
            {"image_id": 99, "id": 9, "caption": "of no image"},
        ],
    }
