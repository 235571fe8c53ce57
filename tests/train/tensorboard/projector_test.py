"""Projector files, as read by TensorBoard's own plugin."""

import csv
import io

import numpy as np
import PIL.Image
from google.protobuf import text_format
from tensorboard.plugins.projector import ProjectorConfig

from tests.evals.tiny_split import TinySplit
from xmodal.evals.scores.sources import Embeddings
from xmodal.train.tensorboard import write_projector


class Pictures(TinySplit):
    """A split with single-colored pictures; the color is the number of the image."""

    has_pictures = True

    def pictures(self, rows):
        return [encode(int(self.image_ids[row])) for row in rows]


def encode(color):
    file = io.BytesIO()
    PIL.Image.new("RGB", (30, 20), (color, 0, 0)).save(file, "PNG")
    return file.getvalue()


def make_source(split, shape=(5,)):
    generator = np.random.default_rng(0)
    image_ids, caption_ids = split.image_ids[::-1], split.caption_ids[::-1]
    images = generator.normal(size=(len(image_ids), *shape)).astype(np.float32)
    captions = generator.normal(size=(len(caption_ids), *shape)).astype(np.float32)
    return Embeddings("here", image_ids, images, caption_ids, captions, "cosine")


def read(folder, name):
    config = text_format.Parse((folder / "projector_config.pbtxt").read_text(), ProjectorConfig())
    (entry,) = (each for each in config.embeddings if each.tensor_name == name)
    vectors = np.loadtxt(folder / entry.tensor_path, delimiter="\t", ndmin=2)
    with (folder / entry.metadata_path).open() as file:
        rows = list(csv.DictReader(file, delimiter="\t"))
    return entry, vectors, rows


def test_every_point_has_its_vector_text_and_picture(tmp_path):
    split = Pictures()
    source = make_source(split)
    write_projector(tmp_path, {"shapes": (source, split)}, 100)
    entry, vectors, rows = read(tmp_path, "shapes")
    assert [row["kind"] for row in rows] == ["image"] * 4 + ["caption"] * 4
    sprite = np.asarray(PIL.Image.open(tmp_path / entry.sprite.image_path))
    width, height = entry.sprite.single_image_dim
    per_row = sprite.shape[1] // width
    texts = dict(zip(split.caption_texts, split.caption_ids, strict=True))
    owner = dict(zip(split.caption_ids, split.caption_image_ids, strict=True))
    for number, (vector, row) in enumerate(zip(vectors, rows, strict=True)):
        image, caption = int(row["image"].removeprefix("image ")), texts[row["text"]]
        assert owner[caption] == image
        ids, known, wanted = (
            (source.image_ids, source.images, image)
            if row["kind"] == "image"
            else (source.caption_ids, source.captions, caption)
        )
        np.testing.assert_allclose(vector, known[list(ids).index(wanted)], rtol=1e-4)
        at = divmod(number, per_row)
        tile = sprite[at[0] * height : (at[0] + 1) * height, at[1] * width : (at[1] + 1) * width]
        assert set(tile[3:-3, 3:-3, 0].ravel()) == {image}
        frame = (31, 119, 180) if row["kind"] == "image" else (255, 127, 14)
        assert (tile[:3] == frame).all()
