"""Published towers on a dataset: expected numbers, and errors before the evaluation."""

import pathlib

import numpy as np
import pytest

import data_prep
from configs import baselines
from xmodal import data
from xmodal.core.errors import UserError
from xmodal.data.text.words import find_row, split_words
from xmodal.pretrained.converters import convert
from xmodal.pretrained.folder import save_tower
from xmodal.train import published_towers
from xmodal.train.evaluation.run_evaluation import RunEvaluation
from xmodal.train.evaluation.suite import Request, Subject

TINY = "tiny_captions"
WORDS = ["a", "red", "ball", "the", "café", "table", "Café", "!"]


@pytest.fixture(scope="module")
def data_dir(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(pathlib.Path(__file__).parents[1] / "data")
        patch.setitem(data_prep.BUILDERS, TINY, f"{TINY}_dataset_builder:Builder")
        yield str(tmp_path_factory.mktemp("tfds"))


@pytest.fixture(scope="module")
def vectors():
    return np.random.default_rng(0).normal(size=(len(WORDS), 6)).astype(np.float32)


@pytest.fixture(scope="module")
def folders(vectors, tmp_path_factory):
    """A folder for each kind of tower, with random weights."""
    root = tmp_path_factory.mktemp("towers")
    lines = [
        f"{word} {' '.join(map(repr, row.tolist()))}\n"
        for word, row in zip(WORDS, vectors, strict=True)
    ]
    (root / "words.txt").write_text("".join(lines), encoding="utf-8")
    save_tower(root / "bow", *convert("words", root / "words.txt"))
    return root


@pytest.fixture
def make_config(data_dir, folders):
    """The baseline of a name on the tiny dataset, with the weights of the folder of a name."""

    def make(argument, folder, **values):
        config = baselines.get_config(argument)
        config.data.dataset, config.data.config, config.data.data_dir = TINY, "images", data_dir
        config.data.text.max_length = 12
        config.evals.coco.update({"bootstrap_samples": 20, "batch_size": 8})
        config.init_from.towers.text = str(folders / folder) if folder else ""
        with config.unlocked():
            config.update_from_flattened_dict(values)
        return config

    return make


def evaluate(config, split):
    parts = published_towers.build_untrained(config)
    params, model_state = published_towers.load_weights(parts)
    evaluation = RunEvaluation(parts, trains=False)
    subject = Subject(
        config.name,
        evaluation.adapter(params, model_state),
        notes=lambda items: published_towers.describe(parts, items),
    )
    (found,) = evaluation.suite.evaluate(subject, Request(split))
    return found


def rank_captions(embeddings, image_ids):
    """Rank of the best caption of the same image for each caption, one by one."""
    ranks = []
    for query, image_id in enumerate(image_ids):
        scores = [embeddings[query] @ other for other in embeddings]
        own = [i for i, other in enumerate(image_ids) if other == image_id and i != query]
        if own:
            best = max(own, key=lambda i: (scores[i], -i))
            before = [i != query and scores[i] > scores[best] for i in range(len(scores))]
            before[:best] = [i != query and scores[i] >= scores[best] for i in range(best)]
            ranks.append(sum(before))
    return np.array(ranks)


@pytest.mark.slow
def test_word_vectors_rank_as_their_reference(make_config, vectors, folders):
    config = make_config("bow", "bow")
    evaluation = evaluate(config, "validation")
    split = data.eval_split(config.data.to_dict() | {"text": {}}, split="validation")
    rows = {word: row for row, word in enumerate(WORDS)}
    bags = [[find_row(rows, word) for word in split_words(text)] for text in split.caption_texts]
    known = [[row for row in bag if row is not None] for bag in bags]
    embedded = np.stack([vectors[bag].sum(0) / max(1, len(bag)) for bag in known])
    norms = np.linalg.norm(embedded, axis=1, keepdims=True)
    ranks = rank_captions(embedded / np.where(norms, norms, 1), split.caption_image_ids)
    for k in (1, 5, 10):
        found = evaluation.metrics[f"{TINY}/t2t/recall@{k}"]
        assert found == pytest.approx(100 * np.mean(ranks < k))
    assert evaluation.tagged[f"coco/{TINY}/t2t/queries"] == len(ranks)
    none = f"{known.count([])} of {len(known)} captions have no known word"
    report = evaluation.report()
    assert none in report
    assert f"Text tower: {folders / 'bow'}, as it is." in report


@pytest.mark.parametrize(
    ("argument", "folder", "values", "message"),
    [
        ("bow", "", {}, r"config\.init_from\.towers\.text is empty: name the"),
        ("bow", "bow", {"model.text.projection": {"width": 4}}, "have text/proj"),
        ("bow", "bow", {"batch_sise": 3}, r"\['batch_sise'\] in config;"),
    ],
)
def test_mistakes_are_named_before_the_dataset_is_read(
    make_config, tmp_path, argument, folder, values, message
):
    config = make_config(argument, folder, **{"data.data_dir": str(tmp_path)} | values)
    with pytest.raises(UserError, match=message):
        evaluate(config, "test")
    assert not list(tmp_path.iterdir())
