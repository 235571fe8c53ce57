"""Published towers on a dataset: the numbers they must give, and what is refused before."""

import json
import pathlib

import jax
import numpy as np
import pytest

import data_prep
from configs import baselines
from xmodal import data
from xmodal.config import UserError
from xmodal.models import make_dual_encoder
from xmodal.pretrained import WordVectors, embed_texts, word_table
from xmodal.pretrained.folder import Description, save_tower
from xmodal.pretrained.report import Report
from xmodal.pretrained.sources import Source
from xmodal.training.baseline import evaluate_baseline
from xmodal.training.state import flatten

TINY = "tiny_captions"
WORDS = ["a", "red", "ball", "the", "café", "table", "Café", "!"]
PIECES = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", *"abcdefghilnoprstuy", *"24!", "##a", "##e", "the"]
BERT = {
    "vocab_size": len(PIECES), "width": 8, "depth": 2, "heads": 2, "mlp_dim": 12,
    "max_positions": 16, "pool": "mean",
}  # fmt: skip
EFFICIENTNET = {"width": 0.25, "depth": 0.25}
NOTHING = Report({}, {}, [], {})


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
    """A folder for each kind of tower, of random weights."""
    root = tmp_path_factory.mktemp("towers")
    text = "".join(f"{word}\n" for word in WORDS)
    source = Source("", {"vectors": vectors}, {"vocab.txt": text})
    description = word_table.describe_bag_of_words(source)
    arrays, report = word_table.convert_bag_of_words(source.arrays, **description.keywords)
    save_tower(root / "bow", arrays, description, report)
    for side, name, keywords, preprocessing, files in (
        ("text", "bert", BERT, {"max_length": 12}, {"vocab.txt": "\n".join(PIECES) + "\n"}),
        ("image", "efficientnet", EFFICIENTNET, {}, {}),
    ):
        encoder = make_dual_encoder({side: {"name": name, **keywords}})
        ids = np.zeros((1, 4), np.int32)
        inputs = {"text_ids": ids, "text_mask": ids}
        inputs = inputs if side == "text" else np.zeros((1, 24, 24, 3), np.uint8)
        params, state = encoder.init(jax.random.key(3), {side: inputs})
        tree = flatten({"params": params[side], **state[side]})
        arrays = {path: np.asarray(array) for path, array in tree.items()}
        save_tower(root / name, arrays, Description(name, keywords, preprocessing, files), NOTHING)
    return root


@pytest.fixture
def make_config(data_dir, folders):
    """The baseline of a name on the tiny dataset, with the weights of the folder of a name."""

    def make(argument, folder, **values):
        config = baselines.get_config(argument)
        config.data.dataset, config.data.config, config.data.data_dir = TINY, "images", data_dir
        config.data.text.max_length = 12
        config.evaluation.bootstrap_samples = 20
        side = "text" if config.model.image is None else "image"
        config.towers[side] = str(folders / folder) if folder else ""
        with config.unlocked():
            config.update_from_flattened_dict(values)
        return config

    return make


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


def test_word_vectors_rank_as_their_reference(make_config, vectors):
    config = make_config("bow", "bow", **{"evaluation.batch_size": 8})
    evaluation = evaluate_baseline(config, "validation")
    split = data.eval_set({**config.data.to_dict(), "text": {}}, split="validation")
    texts = [text.decode() for text in split.caption_texts]
    table = WordVectors({word: row for row, word in enumerate(WORDS)}, vectors)
    embedded, coverage = embed_texts(texts, table)
    norms = np.linalg.norm(embedded, axis=1, keepdims=True)
    ranks = rank_captions(embedded / np.where(norms, norms, 1), split.caption_image_ids)
    for k in (1, 5, 10):
        found = evaluation.metrics[f"{TINY}/t2t/recall@{k}"]
        assert found == pytest.approx(100 * np.mean(ranks < k))
    assert evaluation.metrics[f"{TINY}/t2t/queries"] == len(ranks)
    words = f"{coverage.known_tokens:,} of {coverage.tokens:,} words ({coverage.share:.1%})"
    assert 0 < coverage.share < 1
    none = f"{coverage.empty_texts} of {coverage.texts} captions are without any"
    assert words in evaluation.report()
    assert none in evaluation.report()


def test_files_hold_what_other_evaluations_have(make_config, folders, tmp_path):
    evaluation = evaluate_baseline(make_config("sentence_encoder", "bert"), "test")
    evaluation.save(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "boards.json", "metrics.json", "ranks.npz", "report.md",
    ]  # fmt: skip
    metrics = json.loads((tmp_path / "metrics.json").read_text())
    assert {tag.split("/")[1] for tag in metrics} == {"t2t", "mean_recall@10"}
    assert f"{TINY}/t2t/recall@1_low" in metrics
    report = (tmp_path / "report.md").read_text()
    assert f"Evaluated: {TINY}/images/1.0.0 " in report
    assert "Similarity: cosine" in report
    assert f"Text tower: {folders / 'bert'}, not trained." in report


def test_part_of_a_split_is_said_so(make_config, monkeypatch):
    open_split = data.eval_set

    def open_part(config, *, split):
        opened = open_split(config, split=split)
        opened.partial = "7 images"
        return opened

    config = make_config("bow", "bow")
    assert evaluate_baseline(config, "test").published
    monkeypatch.setattr(data, "eval_set", open_part)
    evaluation = evaluate_baseline(config, "test")
    assert not evaluation.published
    assert "**PARTIAL: 7 images of the test split." in evaluation.report()


def test_pooling_is_the_configs_or_the_folders(make_config):
    given = {pool: make_config("sentence_encoder", "bert", **{"model.text.pool": pool})
             for pool in ("", "mean", "first")}  # fmt: skip
    found = {pool: evaluate_baseline(config, "validation") for pool, config in given.items()}
    ranks = {pool: each.results[0].tasks["t2t"].rank for pool, each in found.items()}
    np.testing.assert_array_equal(ranks[""], ranks["mean"])
    assert not np.array_equal(ranks["first"], ranks["mean"])


def test_images_need_no_vocabulary(make_config, few_shapes):
    """Nothing is learnt from captions that no tower reads."""
    known = set(pathlib.Path(few_shapes).rglob("vocabulary-*.txt"))
    values = {"model.image": {"name": "efficientnet"}, "data.image.size": 24}
    values |= {"data.dataset": "crisscrossed_shapes", "data.data_dir": few_shapes}
    evaluation = evaluate_baseline(make_config("simclr", "efficientnet", **values), "test")
    boards = {board.name: board for board in evaluation.results}
    assert set(boards["shapes"].tasks) == {"i2i"}
    assert set(boards["shapes"].correlations) == {"sis"}
    assert set(pathlib.Path(few_shapes).rglob("vocabulary-*.txt")) == known


def test_images_that_nothing_compares_are_not_embedded(make_config):
    values = {"model.image": {"name": "efficientnet"}, "data.image.size": 24}
    with pytest.raises(UserError, match=f"for image alone, which no board of {TINY} compares"):
        evaluate_baseline(make_config("simclr", "efficientnet", **values), "test")


@pytest.mark.parametrize(
    ("argument", "folder", "values", "message"),
    [
        ("bow", "", {}, r"config\.towers\.text is empty: .* of the 'bag_of_words' tower"),
        ("bow", "bow", {"towers.image": "x"}, r"towers\.image='x', but config\.model\.image is N"),
        ("bow", "none", {}, "none is no converted tower"),
        ("bow", "bert", {}, r"bert holds a tower with name='bert', but .*text\.name is 'bag_of"),
        ("sentence_encoder", "bert", {"model.text.depth": 12}, "depth=2, but .*text.depth is 12"),
        ("sentence_encoder", "bert", {"model.text.dpeth": 2}, "'dpeth'"),
        ("sentence_encoder", "bert", {"model.text.projection": 4}, "have text/projection/bias"),
        ("sentence_encoder", "bert", {"data.text.max_length": 13}, "=13, but .*takes 12 tokens"),
        ("sentence_encoder", "bert", {"data.text.vocabulary": "/none"}, "/none, which does not"),
        ("bow", "bow", {"data.text.tokenizer": "wordpiece"}, "tokenizer='words', not 'wordpiece'"),
        (
            "bow",
            "bow",
            {"model.image": {"name": "resnet"}},
            "config.model.image and config.data.image is None",
        ),
        ("bow", "bow", {"model.similarity": "cos"}, "'cos'"),
        ("bow", "bow", {"evaluation.batch": 3}, r"\['batch'\] in config.evaluation"),
        ("bow", "bow", {"batch_size": 3}, r"\['batch_size'\] in config;"),
    ],
)
def test_mistakes_are_named_before_the_dataset_is_read(
    make_config, tmp_path, argument, folder, values, message
):
    config = make_config(argument, folder, **{"data.data_dir": str(tmp_path)} | values)
    with pytest.raises(UserError, match=message):
        evaluate_baseline(config, "test")
    assert not list(tmp_path.iterdir())


def test_another_vocabulary_is_refused(make_config, folders, tmp_path):
    (tmp_path / "vocab.txt").write_text("".join(f"{word}\n" for word in WORDS[:-1]))
    config = make_config("bow", "bow", **{"data.text.vocabulary": str(tmp_path / "vocab.txt")})
    with pytest.raises(UserError, match="has 7 word pieces.*the 8 that the tower"):
        evaluate_baseline(config, "test")
    # A folder that was put together by hand: other words than rows.
    for name in ("tower.json", "weights.safetensors"):
        (tmp_path / name).write_bytes((folders / "bow" / name).read_bytes())
    config = make_config("bow", "bow", **{"towers.text": str(tmp_path)})
    with pytest.raises(UserError, match="has 7 tokens, but the tower of .* has 8 rows"):
        evaluate_baseline(config, "test")
    (tmp_path / "vocab.txt").unlink()
    with pytest.raises(UserError, match="has no vocab.txt"):
        evaluate_baseline(config, "test")
