"""Settings that a run takes from the weights it starts from; the model is the tiny one."""

import jax
import numpy as np
import pytest

from configs import base
from tests import tiny_encoder as tiny
from xmodal import data
from xmodal.core.errors import UserError
from xmodal.core.tree_paths import leaves_by_path
from xmodal.models.tower import make_tower
from xmodal.pretrained.conversion_report import Report
from xmodal.pretrained.folder import Description, save_folder
from xmodal.train.folder import checkpoints, run_folder
from xmodal.train.inherit import inherit
from xmodal.train.resolve import resolve
from xmodal.train.sections import BestCheckpointConfig, CheckpointConfig

WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", *"abcdefghijklmnop"]
BERT = {
    "name": "bert", "vocab_size": len(WORDS), "width": 8, "depth": 3, "heads": 2, "mlp_dim": 12,
    "max_positions": tiny.TOKENS,
}  # fmt: skip
MOBILE = {"name": "mobilenet_v2", "width": 0.35, "folded": True}


def write_vocabulary(path, tokens):
    path.write_text("".join(f"{token}\n" for token in tokens))
    return str(path)


def save(folder, modality, encoder, head, preprocessing, files):
    """Saves a converted tower with random weights."""
    description = Description(encoder, head, preprocessing, files)
    ids = np.ones((1, 4), np.int32)
    pixels = {"image": np.zeros((1, 32, 32, 3), np.uint8)}
    inputs = {"text_ids": ids, "text_mask": ids} if modality == "text" else pixels
    tower = make_tower(f"config.model.{modality}", description.section())
    params, state = jax.eval_shape(lambda: tower.init(jax.random.key(0), inputs))
    rng = np.random.default_rng(0)
    arrays = {
        name: rng.normal(size=leaf.shape).astype(np.float32)
        for name, leaf in leaves_by_path({"params": params, **state}).items()
    }
    save_folder(folder, arrays, description, Report({}, {}, [], {}))
    return str(folder)


@pytest.fixture(scope="module")
def bert(tmp_path_factory):
    """The folder of a BERT with mean pooling that reads six tokens."""
    folder = tmp_path_factory.mktemp("towers") / "bert"
    preprocessing = {"tokenizer": "wordpiece", "lower_case": True, "max_length": tiny.TOKENS}
    files = {"vocab.txt": "".join(f"{token}\n" for token in WORDS).encode()}
    return save(folder, "text", BERT, {"name": "mean"}, preprocessing, files)


@pytest.fixture(scope="module")
def mobilenet(tmp_path_factory):
    """The folder of a small MobileNetV2 for pictures of 96 pixels."""
    folder = tmp_path_factory.mktemp("towers") / "mobilenet"
    return save(folder, "image", MOBILE, None, {"normalization": "inception", "size": 96}, {})


def make_open_config(**towers):
    """A config that leaves to the towers everything they specify."""
    config = tiny.make_config()
    config.batch_size = 16
    config.model.image = {"encoder": {"name": ""}, "head": None, "projection": {"width": 8}}
    config.model.text = {"encoder": {"name": None}, "head": None, "projection": {"width": 8}}
    config.data.image.size = 0
    config.data.text = {"vocabulary": "", "max_length": None}
    config.init_from.towers.update(towers)
    return config


def test_towers_fill_what_a_config_leaves_unset(bert, mobilenet, few_shapes):
    config = make_open_config(text=bert, image=mobilenet)
    config.data.data_dir = few_shapes
    filled = inherit(config)
    assert filled.model.text.encoder.to_dict() == BERT
    assert filled.model.text.head.to_dict() == {"name": "mean"}
    assert filled.model.image.encoder.to_dict() == MOBILE | {"normalization": "inception"}
    assert filled.model.image.head.to_dict() == {"name": "mean"}
    assert filled.data.image.size == 96
    assert filled.data.text.to_dict() == {
        "vocabulary": f"{bert}/vocab.txt", "tokenizer": "wordpiece", "lower_case": True,
        "max_length": tiny.TOKENS,
    }  # fmt: skip
    assert config.model.text.head is None  # The caller's config is unchanged.
    parts = resolve(filled)
    assert parts.batch["image"].shape == (16, 96, 96, 3)
    words = parts.shapes[0]["text"]["encoder"]["word_embeddings"]
    assert words.shape == (len(WORDS), 8)
    assert data.load_tokenizer(parts.settings.data).vocabulary == tuple(WORDS)


def test_a_choice_that_weights_leave_open_stays(bert, mobilenet):
    config = make_open_config(text=bert, image=mobilenet)
    config.data.image.size, config.data.text.max_length = 64, 5
    config.model.text.head = {"name": "cls"}
    choices = {"lower_depth": 2, "dropout": 0.1, "layer_init": "siglip"}
    config.model.text.encoder = {"name": "bert", "depth": 3, **choices}
    filled = inherit(config)
    assert filled.data.image.size == 64
    assert filled.data.text.max_length == 5
    assert filled.model.text.head.to_dict() == {"name": "cls"}
    assert filled.model.text.encoder.to_dict() == BERT | choices


@pytest.mark.parametrize(
    ("towers", "text", "message"),
    [
        (
            {"image": "BERT"},
            {},
            "(?s)contradicts the tower .*image.encoder.name is 'precomputed', the .* have 'bert'",
        ),
        (
            {"text": "BERT"},
            {"vocab_size": 21, "depth": 2},
            "(?s)encoder.vocab_size is 21, .* have 20.*encoder.depth is 2, .* have 3",
        ),
    ],
)
def test_another_tower_than_the_configs(bert, towers, text, message):
    config = tiny.make_config_with_towers(**text or {})
    config.data.text.vocabulary = f"{bert}/vocab.txt"
    for modality, folder in towers.items():
        config.init_from.towers[modality] = folder.replace("BERT", bert)
    with pytest.raises(UserError, match=message):
        inherit(config)


@pytest.fixture(scope="module")
def other_run(tmp_path_factory):
    """The folder of a run of the tiny model, with its own words."""
    folder = str(tmp_path_factory.mktemp("other") / "run")
    config = tiny.make_config()
    config.model.text.encoder.dropout = 0.1
    parts = tiny.make_parts(config)
    saver = checkpoints.Checkpoints(folder, CheckpointConfig(), BestCheckpointConfig("m"))
    saver.save(tiny.start(parts, seed=1))
    saver.close()
    run_folder.save_config(folder, config, WORDS)
    return folder


def make_second_config(other_run, **options):
    config = tiny.make_config()
    config.init_from.update({"run": other_run, "step": "latest", **options})
    return config


def test_a_run_brings_its_vocabulary(other_run):
    config = make_second_config(other_run)
    config.model.text.encoder = {"name": "bert", "vocab_size": 0}
    config.model.text.head = None
    filled = inherit(config)
    assert filled.data.text.vocabulary == f"{other_run}/vocab.txt"
    own = tiny.make_config().model.text.encoder
    assert filled.model.text.encoder.to_dict() == own.to_dict() | {"dropout": 0.1}
    assert filled.model.text.head.name == "cls"


def test_other_token_ids_than_a_runs_are_named(other_run, tmp_path):
    config = make_second_config(other_run)
    config.data.text = base.words("nltk", min_count=1, max_length=5, lower_case=False)
    config.data.text.vocabulary = write_vocabulary(tmp_path / "vocab.txt", WORDS[::-1])
    with pytest.raises(UserError) as caught:
        inherit(config)
    assert f"The config contradicts the run {other_run}:\n" in str(caught.value)
    assert "config.data.text.tokenizer is 'nltk', the weights have" in str(caught.value)


def test_a_run_that_goes_on_needs_nothing_that_it_came_from(other_run):
    config = tiny.make_config()
    config.init_from.towers.text = "gone"
    config.data.text.vocabulary = "gone/vocab.txt"
    config.model.text.encoder.vocab_size = 0
    filled = inherit(config, other_run)
    assert filled.data.text.vocabulary == f"{other_run}/vocab.txt"
    assert filled.model.text.encoder.vocab_size == tiny.WORDS
    with pytest.raises(UserError, match="gone is not a converted tower"):
        inherit(config)


def test_a_run_of_a_whole_model_goes_on_without_its_folder(other_run):
    config = tiny.make_config()
    config.init_from.model, config.model = "gone", {"image": None, "text": None, "similarity": {}}
    config.data.image.size, config.data.text = 0, {"tokenizer": "bpe"}
    filled, own = inherit(config, other_run), run_folder.load_run(other_run)
    assert filled.model.to_dict() == own.model.to_dict()
    assert filled.data.image.size == own.data.image.size
    ids = "tokenizer", "max_length", "vocabulary"
    assert [filled.data.text[key] for key in ids] == [own.data.text[key] for key in ids]
