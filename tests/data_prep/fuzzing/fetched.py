"""Published links with fetched images: Conceptual Captions, SBU, pins."""

from collections.abc import Callable
from typing import Any

from tests.data_prep import img2dataset
from tests.data_prep.fuzzing.contents import Images, text_of
from tests.data_prep.pinterest import python2_arrays


def conceptual(output_format: str) -> Callable[[Any, Images], None]:
    def write(folder: Any, images: Images) -> None:
        first = 0
        for name, part, count in (
            ("Train_GCC-training.tsv", "training", 5),
            ("Validation_GCC-1.1.0-Validation.tsv", "validation", 3),
        ):
            rows = [
                (text_of(n), f"http://example.org/{n}.jpg") for n in range(first, first + count)
            ]
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


def sbu(folder: Any, images: Images) -> None:
    urls = [f"http://static.flickr.com/{n}/{n}_o.jpg" for n in range(8)]
    for name, lines in (("urls", urls), ("captions", map(text_of, range(8)))):
        text = "".join(f"{line}\n" for line in lines)
        (folder / f"SBU_captioned_photo_dataset_{name}.txt").write_text(text, encoding="utf-8")
    (folder / "images").mkdir()
    for n in range(8):
        (folder / "images" / f"{n}.jpg").write_bytes(images(n))


def pinterest(folder: Any, images: Images) -> None:
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
