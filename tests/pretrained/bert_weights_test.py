"""BERT of every publisher, against Hugging Face's own implementation and a real encoder."""

import dataclasses
import json

import numpy as np
import parity
import published_bert as published
import pytest
import safetensors.numpy

import xmodal
from xmodal.models import Mode, make_tower
from xmodal.pretrained.bert_weights import describe_bert
from xmodal.pretrained.converters import convert
from xmodal.pretrained.folder import read_weights, save_folder
from xmodal.pretrained.weight_files import load_source

NUM_CAPTIONS = 300


def write_hugging_face(folder, size, weights=None, **changes):
    """Writes a folder as published; returns its arrays."""
    published.write_beside(folder, size, **changes)
    weights = published.to_hugging_face(weights or published.make_weights(size))
    safetensors.numpy.save_file(weights, folder / "model.safetensors")
    return weights


def describe(folder):
    return describe_bert(load_source(folder)).text.description


@pytest.mark.slow
def test_outputs_equal_the_reference_implementation(tmp_path):
    size = published.SMALL
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    config = {"attn_implementation": "eager", **size.config()}
    reference = transformers.BertModel(transformers.BertConfig(**config)).eval()
    state = reference.state_dict()
    weights = published.to_hugging_face(published.make_weights(size))
    assert set(weights) == {name for name in state if not name.endswith("_ids")}
    reference.load_state_dict({k: torch.tensor(v) for k, v in weights.items()}, strict=False)
    reference.save_pretrained(tmp_path)
    published.write_beside(tmp_path, size, **json.loads((tmp_path / "config.json").read_text()))

    arrays, description, report = convert("bert", tmp_path)
    assert len(report.loaded) == 21
    save_folder(tmp_path / "tower", arrays, description, report)
    params, model_state = parity.nest(read_weights(tmp_path / "tower"))
    assert model_state == {}
    tower = make_tower("tower", description.section())

    rng = np.random.default_rng(1)
    ids = rng.integers(0, size.vocab_size, (3, size.max_positions), np.int32)
    mask = np.arange(size.max_positions) < np.array([[size.max_positions], [1], [4]])
    with torch.no_grad():
        inputs = {"input_ids": torch.tensor(ids), "attention_mask": torch.tensor(mask).long()}
        expected = reference(**inputs).last_hidden_state.numpy()
    largest = np.abs(expected[mask]).max()
    encoder = tower.module.encoder
    for dtype, limit in (("float32", 1e-4), ("bfloat16", 2e-2)):
        module = encoder.clone(config=dataclasses.replace(encoder.config, dtype=dtype))
        inputs = {"text_ids": ids, "text_mask": mask}
        outputs = module.apply({"params": params["encoder"]}, inputs, Mode.EVALUATE).tokens
        difference = np.abs(np.asarray(outputs, np.float32) - expected)[mask].max() / largest
        assert difference < limit
    vector = tower.apply(params, {}, {"text_ids": ids, "text_mask": mask})[0].vector
    np.testing.assert_allclose(vector, expected[:, 0], atol=1e-4 * largest)


def test_every_publisher_gives_the_same_arrays(tmp_path):
    import tensorflow as tf

    size = published.SMALL
    weights = published.make_weights(size)
    write_hugging_face(tmp_path / "torch", size, weights)
    expected, described, _ = convert("bert", tmp_path / "torch")

    google = tmp_path / "google"
    google.mkdir()
    named = weights | {
        "bert/embeddings/word_embeddings/adam_m": np.zeros(1, np.float32),
        "cls/predictions/output_bias": np.zeros(3, np.float32),
        "global_step": np.int64(3),
    }
    parity.save_checkpoint(named, google / "bert_model.ckpt")
    own = {key: value for key, value in size.config().items() if key != "model_type"}
    (google / "bert_config.json").write_text(json.dumps(own))
    (google / "vocab.txt").write_text(published.make_vocabulary(size.vocab_size))
    for path in (google, google / "bert_model.ckpt"):
        arrays, description, _ = convert("bert", path)
        parity.assert_equal_arrays(arrays, expected)
        assert description == described

    # A hub folder has no config; everything follows from the shapes.
    for version in (1, 2):
        hub = tmp_path / f"hub{version}"
        module = tf.Module()
        variables = published.to_hub(weights, size.heads, version)
        module.all = [tf.Variable(array, name=name) for name, array in variables.items()]
        module.do_lower_case = tf.Variable(True, trainable=False)
        tf.saved_model.save(module, str(hub))
        (hub / "assets/vocab.txt").write_text(published.make_vocabulary(size.vocab_size))
        arrays, description, _ = convert("bert", hub)
        parity.assert_equal_arrays(arrays, expected)
        assert description == described


def test_pooling_and_length_of_sentence_encoders(tmp_path):
    size = published.SMALL
    write_hugging_face(tmp_path, size)
    assert describe(tmp_path).head is None
    (tmp_path / "1_Pooling").mkdir()
    pooling = tmp_path / "1_Pooling/config.json"
    (tmp_path / "sentence_bert_config.json").write_text('{"max_seq_length": 8}')
    modules = [{"type": f"x.models.{name}"} for name in ("Transformer", "Pooling", "Normalize")]
    (tmp_path / "modules.json").write_text(json.dumps(modules))
    for settings, pool in (
        ({"pooling_mode_cls_token": False, "pooling_mode_mean_tokens": True}, "mean"),
        ({"pooling_mode": "mean", "include_prompt": True}, "mean"),
    ):
        pooling.write_text(json.dumps(settings))
        description = describe(tmp_path)
        assert description.encoder == {"name": "bert", **vars(size)}
        assert description.head == {"name": pool}
        inputs = {"tokenizer": "wordpiece", "lower_case": True, "max_length": 8}
        assert description.preprocessing == inputs
    save_folder(tmp_path / "tower", *convert("bert", tmp_path))
    vectors = np.asarray(xmodal.load(tmp_path / "tower").embed_texts(["a", "b"]))
    assert vectors.shape == (2, size.width)


def test_a_tokenizer_json_is_a_vocabulary_too(tmp_path):
    write_hugging_face(tmp_path, published.SMALL)
    text = (tmp_path / "vocab.txt").read_text()
    (tmp_path / "vocab.txt").unlink()
    model = {"type": "WordPiece", "vocab": {t: n for n, t in enumerate(text.split())}}
    (tmp_path / "tokenizer.json").write_text(json.dumps({"model": model}))
    assert describe(tmp_path).files == {"vocab.txt": text.encode()}
