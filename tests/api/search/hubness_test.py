"""Images that a model was trained on are counted, and no longer crowd out the others."""

import json

import numpy as np
import PIL.Image

import xmodal
from data_prep.building.image_check import checked_image
from data_prep.same_text import content_hash
from tests.api.search.pictures_test import draw_noise
from xmodal.api.model import Model
from xmodal.api.search import hubness
from xmodal.api.search.gallery import IndexGallery
from xmodal.api.search.hubness import TrainingItems, compute_penalties, read_training_items
from xmodal.api.search.index import Index
from xmodal.api.search.nearest import Scorer
from xmodal.similarity import make_similarity


def test_pictures_of_the_training_are_recognized_as_files_and_contents(tmp_path):
    exif = PIL.Image.Exif()
    exif[0x0112] = 6
    paths = [tmp_path / f"{number}.jpg" for number in range(4)]
    for path, pixels in zip(paths, draw_noise(4), strict=True):
        PIL.Image.fromarray(pixels).save(path, exif=exif if path.name == "1.jpg" else b"")
    paths[3].write_bytes(b"no picture")
    # As prepared datasets store them: the second one is rotated.
    stored = [checked_image(path.read_bytes(), upright=True) for path in paths[:2]]
    items = TrainingItems(frozenset(map(content_hash, stored)), [])
    given = [*map(str, paths), paths[0].read_bytes(), tmp_path / "gone.jpg", np.zeros(3)]
    assert items.has_trained_on(given).tolist() == [True, True, False, False, True, False, False]


def test_penalties_are_those_of_csls(monkeypatch):
    monkeypatch.setattr(hubness, "_BLOCK", 7)
    rng = np.random.default_rng(0)
    bank, items = rng.normal(size=(9, 4)), rng.normal(size=(20, 4))
    scorer = Scorer(make_similarity({"name": "cosine"}), {})
    found = compute_penalties(scorer, *(x.astype(np.float32) for x in (bank, items)), 3)
    unit = [x / np.linalg.norm(x, axis=1, keepdims=True) for x in (bank, items)]
    halves = np.sort(unit[0] @ unit[1].T, axis=0)[-3:].mean(axis=0) / 2
    np.testing.assert_allclose(found, halves - halves.min(), atol=1e-6)


class _Words(Model):
    """A model that knows the embeddings of its texts."""

    def __init__(self, vectors):
        self.vectors, self.name, self.source, self.step = vectors, "words", "words", None
        self.modalities, self.similarity_name = ("image", "text"), "cosine"
        self.measure = make_similarity({"name": "cosine"}), {}

    def embed_texts(self, texts, *, batch_size=None):
        return np.array([self.vectors[text] for text in texts], np.float32)

    def hash_weights(self):
        return "0"


def test_an_image_near_to_all_texts_is_corrected_and_the_flag_undoes_it(tmp_path):
    texts = {"a dog": (1, 0, 0.9), "a cat": (0, 1, 0.9), "a query": (1, 0, 1)}
    # The first item, of the training, is near to all texts; the second has the query's content.
    vectors = np.array([[0.5, 0.3, 1], [1, 0, 0.1], [0, 1, 0.1]], np.float32)
    gallery = IndexGallery(["hub", "dog", "cat"], vectors, trained=np.array([True, False, False]))
    training = TrainingItems(frozenset([1]), ["a dog", "a cat"])
    index = Index(_Words(texts), {"image": gallery}).complete(training)
    assert index.trained == 1
    assert index.notes() == [
        "The model was trained on 1 of the 3 images; scores of texts with images are corrected."
    ]
    index.save(tmp_path / "index")
    for each in (index, Index.open(tmp_path / "index", model=index.model)):
        hits = each.query("a query")
        assert hits[0].item == "dog"
        assert hits[0].definition == "cosine, corrected for training images"
        each.is_corrected = False
        hit = each.query("a query")[0]
        assert (hit.item, hit.definition) == ("hub", "cosine")
        assert each.notes()[0].endswith("texts find them easily.")
    # Without pictures of the training, nothing changes.
    gallery.trained, gallery.penalties = np.zeros(3, bool), None
    unknown = Index(index.model, {"image": gallery}).complete(training)
    assert unknown.notes() == []
    assert gallery.penalties is None


def test_only_runs_on_own_images_know_what_they_were_trained_on(of_pixels, tmp_path):
    model = xmodal.load(of_pixels)
    assert read_training_items(model) is None
    (tmp_path / "training_items.json").write_text(json.dumps({"images": [7], "captions": ["a"]}))
    model.step, model.source = 3, str(tmp_path)
    assert read_training_items(model) == TrainingItems(frozenset([7]), ["a"])
    model.source = str(tmp_path / "another")
    assert read_training_items(model) is None
