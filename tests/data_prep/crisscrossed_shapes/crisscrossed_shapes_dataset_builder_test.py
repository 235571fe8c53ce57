import numpy as np
import pytest

from data_prep import builder_class
from data_prep.crisscrossed_shapes.scene_graph import COLORS, SHAPES

SIZES = {"train": 60, "validation": 20, "test": 24}


def build(config, data_dir):
    cls = builder_class("crisscrossed_shapes")
    builder = cls(config=config, data_dir=data_dir)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cls, "SPLIT_SIZES", SIZES)
        builder.download_and_prepare()
    return builder


@pytest.fixture(scope="module")
def data_dir(tmp_path_factory):
    return tmp_path_factory.mktemp("tfds")


@pytest.fixture(scope="module")
def images(data_dir):
    builder = build("images", data_dir)
    return {split: list(builder.as_data_source(split)) for split in SIZES}


def test_images_and_captions_have_stable_unique_ids(images):
    assert {split: len(examples) for split, examples in images.items()} == SIZES
    everything = [example for examples in images.values() for example in examples]
    assert sorted(example["image_id"] for example in everything) == list(range(len(everything)))
    for example in everything:
        assert example["image"].shape == (64, 64, 3)
        assert example["image"].dtype == np.uint8
        assert len(example["captions"]) == 5
        np.testing.assert_array_equal(
            example["caption_ids"], example["image_id"] * 5 + np.arange(5)
        )


def test_regions_are_the_objects_of_the_images(images, data_dir):
    builder = build("regions", data_dir)
    hashes = {split: text[:16] for split, text in builder.info.metadata["split_hashes"].items()}
    assert hashes == {  # Scenes and captions stay the same in all versions.
        "train": "15d83f79c7a791a6",
        "validation": "df5100afcf02d0b5",
        "test": "156bf487428df43c",
    }
    for split in SIZES:
        for example, other in zip(builder.as_data_source(split), images[split], strict=True):
            assert example["image_id"] == other["image_id"]
            assert list(example["captions"]) == list(other["captions"])
            shapes, colors, *others = np.split(example["image"], [9, 19, 22, 25], axis=1)
            names = [
                f"{COLORS[color]} {SHAPES[shape]}"
                for color, shape in zip(colors.argmax(1), shapes.argmax(1), strict=True)
            ]
            assert example["tags"].decode() == " ".join(names)
            assert all((part.sum(axis=1) == 1).all() for part in (shapes, colors, *others))


def test_ratings_refer_to_images_and_captions_of_their_split(images, data_dir):
    builder = build("ratings", data_dir)
    assert set(builder.info.splits) == {"validation", "test"}
    sides = {"sts": "cc", "sis": "ii", "sits": "ci"}
    for split in ("validation", "test"):
        own = {example["image_id"] for example in images[split]}
        captions = {int(caption) for example in images[split] for caption in example["caption_ids"]}
        originals = 0
        for pair in builder.as_data_source(split):
            for side, item in zip(
                sides[pair["rating"].decode()],
                (pair["left_id"], pair["right_id"]),
                strict=True,
            ):
                assert int(item) in (captions if side == "c" else own)
            assert pair["score"] == pytest.approx(np.mean(pair["rater_scores"]), abs=1e-5)
            if pair["method"] == b"c2i_original":
                assert pair["left_id"] // 5 == pair["right_id"]
                originals += 1
        assert originals == len(captions)


def test_one_caption_of_every_image_with_its_coherence_relations(data_dir, images):
    builder = build("coherence", data_dir)
    names = list(builder.info.metadata["relations"])
    assert names == ["Visible", "Subjective", "Action", "Story", "Meta", "Irrelevant"]
    examples = list(builder.as_data_source("train"))
    assert len(examples) == SIZES["train"]
    texts = {image["image_id"]: image["captions"] for image in images["train"]}
    labels = np.stack([example["relations"] for example in examples])
    assert labels.shape == (60, 6)
    held = dict(zip(names, labels.T.astype(bool), strict=True))
    assert all(0 < column.sum() < len(column) for column in held.values())
    # A caption describes the picture, tells a story around it, or is about something else.
    assert (held["Visible"] ^ held["Story"] ^ held["Irrelevant"]).all()
    assert not (held["Visible"] & held["Story"]).any()
    assert held["Visible"][held["Action"]].all()
    for example, relations in zip(examples, labels, strict=True):
        describer = example["image_id"] % 5
        assert list(example["caption_ids"]) == [example["image_id"] * 5 + describer]
        if relations.tolist() == [1, 0, 0, 0, 0, 0]:
            assert list(example["captions"]) == [texts[example["image_id"]][describer]]
