"""Tasks of mteb and evaluators of sentence-transformers agree with our own evaluation."""

import numpy as np
import PIL.Image
import pytest
from converted_models import MODELS, save_converted
from scipy import stats

import xmodal
from xmodal.core.errors import UserError

WORDS = ("red", "star", "circle", "stars", "a red circle", "above")
TEXTS = [f"{first} {second}" for first in WORDS for second in WORDS]


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    folder, draw = tmp_path_factory.mktemp("models") / "tiny", np.random.default_rng(0).normal
    return xmodal.load(save_converted(folder, MODELS["pixels"], draw))


@pytest.fixture(scope="module")
def rated(model):
    """Pairs of texts with ratings, and our correlation; scores differ by more than rounding."""
    others = [*TEXTS[7:], *TEXTS[:7]]
    scores = np.diagonal(model.similarity(model.embed_texts(TEXTS), model.embed_texts(others)))
    rows = np.unique(np.round(scores, 5), return_index=True)[1]
    ratings = np.random.default_rng(3).uniform(0, 5, len(rows)).tolist()
    own = stats.spearmanr(scores[rows], ratings).statistic
    assert len(rows) > 20
    return [TEXTS[row] for row in rows], [others[row] for row in rows], ratings, own


def pictures(count):
    rng = np.random.default_rng(0)
    return [PIL.Image.fromarray(rng.integers(0, 256, (32, 32, 3), np.uint8)) for _ in range(count)]


def own_retrieval(model, folder, images, texts):
    """Our metrics in percent: caption i describes image i."""
    folder.mkdir()
    rows = "".join(f"{n} 0 {n} 1\n" for n in range(len(texts)))
    (folder / "t2i.qrels").write_text(rows)
    ids = np.arange(len(texts))
    embeddings = {
        "image_ids": ids,
        "image_embeddings": model.embed_images(images, upright=False),
        "caption_ids": ids,
        "caption_embeddings": model.embed_texts(texts),
    }
    names = ["ndcg@10", "recall@5"]
    given = {"embeddings": embeddings, "similarity": "cosine", "annotations": folder}
    evaluation = xmodal.evaluate(**given, metrics=names, bootstrap_samples=10)
    return {
        name: next(x for tag, x in evaluation.metrics.items() if tag.endswith(f"t2i/{name}"))
        for name in names
    }


def sts_task(left, right, ratings):
    """A task of rated pairs of texts."""
    mteb = pytest.importorskip("mteb", reason="mteb comes with the extra 'parity'")
    datasets = pytest.importorskip("datasets", reason="datasets comes with the extra 'hub'")

    class Task(mteb.abstasks.AbsTaskSTS):
        metadata = task_metadata("TinySts", "STS", "t2t", ["text"], "cosine_spearman")
        min_score, max_score = 0, 5

        def load_data(self, **_):
            rows = {"sentence1": left, "sentence2": right, "score": ratings}
            self.dataset = datasets.DatasetDict({"test": datasets.Dataset.from_dict(rows)})
            self.data_loaded = True

    return Task()


def retrieval_task(images):
    """A task with texts that find images."""
    mteb = pytest.importorskip("mteb", reason="mteb comes with the extra 'parity'")
    datasets = pytest.importorskip("datasets", reason="datasets comes with the extra 'hub'")
    count, split = len(images), datasets.Dataset.from_dict

    class Task(mteb.abstasks.AbsTaskRetrieval):
        metadata = task_metadata(
            "TinyImages", "Any2AnyRetrieval", "t2i", ["text", "image"], "ndcg_at_10"
        )

        def load_data(self, **_):
            ids, text = [f"q{n}" for n in range(count)], TEXTS[:count]
            corpus = split({"id": [f"d{n}" for n in range(count)], "image": images})
            self.dataset = {"default": {}}
            self.dataset["default"]["test"] = {
                "queries": split({"id": ids, "text": text, "modality": ["text"] * count}),
                "corpus": corpus.cast_column("image", datasets.Image()),
                "relevant_docs": {f"q{n}": {f"d{n}": 1} for n in range(count)},
                "top_ranked": None,
            }
            self.data_loaded = True

    return Task()


def task_metadata(name, kind, category, modalities, score):
    from mteb.abstasks.task_metadata import TaskMetadata

    return TaskMetadata(
        name=name, type=kind, category=category, modalities=modalities, main_score=score,
        description="tiny", dataset={"path": "none/none", "revision": "1"}, eval_splits=["test"],
        eval_langs=["eng-Latn"], reference=None, date=None, domains=None, task_subtypes=None,
        license=None, annotations_creators=None, dialect=None, sample_creation=None,
        bibtex_citation=None,
    )  # fmt: skip


def scores_of(result):
    return result.task_results[0].scores["test"][0]


@pytest.mark.slow
def test_tasks_of_mteb(model, rated, tmp_path):
    mteb = pytest.importorskip("mteb", reason="mteb comes with the extra 'parity'")
    images, adapter = pictures(12), xmodal.MtebModel(model)
    found = scores_of(mteb.evaluate(adapter, retrieval_task(images), cache=None))
    own = own_retrieval(model, tmp_path / "labels", images, TEXTS[:12])
    assert 0 < own["recall@5"] < 100
    assert 100 * found["ndcg_at_10"] == pytest.approx(own["ndcg@10"], abs=1e-3)
    assert 100 * found["recall_at_5"] == pytest.approx(own["recall@5"], abs=1e-3)

    *pairs, own = rated
    found = scores_of(mteb.evaluate(adapter, sts_task(*pairs), cache=None))
    assert found["spearman"] == pytest.approx(own, abs=1e-4)
    meta = adapter.mteb_model_meta
    assert (meta.name, meta.revision) == ("xmodal/tiny", model.hash_weights())


@pytest.mark.slow
def test_evaluators_of_sentence_transformers(model, rated, tmp_path):
    library = pytest.importorskip(
        "sentence_transformers.sentence_transformer.evaluation",
        reason="sentence-transformers comes with the extra 'parity'",
    )
    adapter, images = xmodal.SentenceTransformerModel(model), pictures(12)
    *pairs, own = rated
    found = library.EmbeddingSimilarityEvaluator(*pairs)(adapter)
    assert found["spearman_cosine"] == pytest.approx(own, abs=1e-4)

    queries = {f"q{n}": TEXTS[n] for n in range(12)}
    relevant = {f"q{n}": {f"d{n}"} for n in range(12)}
    corpus = {f"d{n}": image for n, image in enumerate(images)}
    found = library.InformationRetrievalEvaluator(queries, corpus, relevant)(adapter)
    own = own_retrieval(model, tmp_path / "labels", images, TEXTS[:12])
    assert 100 * found["cosine_recall@5"] == pytest.approx(own["recall@5"], abs=1e-3)
    assert 100 * found["cosine_ndcg@10"] == pytest.approx(own["ndcg@10"], abs=1e-3)
    with pytest.raises(UserError, match=r"\['precision'\] of encode cannot be used"):
        adapter.encode(TEXTS, precision="int8")
    np.testing.assert_array_equal(adapter.encode(TEXTS[0]), adapter.encode(TEXTS[:1])[0])
