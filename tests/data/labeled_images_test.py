"""Labeled images: datasets that TFDS prepared, folders of classes, and the built-in dataset."""

import io

import numpy as np
import PIL.Image
import pytest
import tensorflow_datasets as tfds

from xmodal import data

NAMES = ("red", "green", "blue")
COUNTS = {"train": 23, "test": 11}


def picture(label, number):
    pixels = np.zeros((6, 7, 3), np.uint8)
    pixels[..., label] = 200 + number
    return pixels


class Patches(tfds.core.GeneratorBasedBuilder, skip_registration=True):
    """As a classification dataset of TFDS: no ids, no captions."""

    VERSION = tfds.core.Version("1.0.0")
    name = "patches"

    def _info(self):
        features = {
            "image": tfds.features.Image(shape=(None, None, 3)),
            "label": tfds.features.ClassLabel(names=NAMES),
            "file_name": tfds.features.Text(),
        }
        return tfds.core.DatasetInfo(builder=self, features=tfds.features.FeaturesDict(features))

    def _split_generators(self, manager):
        return {split: self._examples(count) for split, count in COUNTS.items()}

    def _examples(self, count):
        for number in range(count):
            label = number % 3
            image = picture(label, number)
            yield number, {"image": image, "label": label, "file_name": f"{number}.png"}

    def _generate_examples(self):
        raise NotImplementedError


@pytest.fixture(scope="module")
def prepared(tmp_path_factory):
    folder = str(tmp_path_factory.mktemp("tfds"))
    Patches(data_dir=folder, file_format="array_record").download_and_prepare()
    return folder


def section(folder):
    return {"dataset": "patches", "data_dir": folder, "image": {"size": 8}, "labels": ("label",)}


def test_a_prepared_dataset_of_tfds_is_read_without_its_code(prepared):
    items = data.eval_split(section(prepared), split="train")
    assert len(items.image_ids) == COUNTS["train"]
    assert list(items.label_names["label"]) == list(NAMES)
    assert items.modalities == ("image",)
    rows = np.array([7, 0, 22])
    for encoded, row in zip(items.pictures(rows), rows, strict=True):
        pixels = np.asarray(PIL.Image.open(io.BytesIO(encoded)))
        number = int(items.labels["file_name"][row].removesuffix(".png"))
        np.testing.assert_array_equal(pixels, picture(items.labels["label"][row], number))
    (batch,) = items.images(8, rows)
    np.testing.assert_array_equal(batch["image_id"], rows)
    assert len(data.eval_split(section(prepared), split="train[5:9]").image_ids) == 4
