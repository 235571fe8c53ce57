"""Training on stored features of the frozen layers is training, once those are computed."""

import dataclasses
import json
import pathlib

import jax
import numpy as np
import pytest
import tiny_encoder as tiny
from jax.experimental.compilation_cache import compilation_cache

import data_prep
from configs import common
from xmodal import data
from xmodal import mesh as mesh_lib
from xmodal.config import UserError
from xmodal.training import checkpoints, frozen_cache, loop, preflight, reporting
from xmodal.training.evaluation import RunEvaluator

TINY = "tiny_captions"
TOTAL_STEPS = 8
LOWER = "text/bert/(?!layers)"


@pytest.fixture(scope="module", autouse=True)
def _compile_once(tmp_path_factory):
    changes = {
        "jax_compilation_cache_dir": str(tmp_path_factory.mktemp("compiled")),
        "jax_persistent_cache_min_compile_time_secs": 0.0,
        "jax_persistent_cache_min_entry_size_bytes": -1,
    }
    before = {name: getattr(jax.config, name) for name in changes}
    for name, value in changes.items():
        jax.config.update(name, value)
    compilation_cache.reset_cache()
    yield
    for name, value in before.items():
        jax.config.update(name, value)
    compilation_cache.reset_cache()


@pytest.fixture(scope="module")
def data_dir(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(pathlib.Path(__file__).parents[1] / "data")
        patch.setitem(data_prep.BUILDERS, TINY, f"{TINY}_dataset_builder:Builder")
        yield str(tmp_path_factory.mktemp("tfds"))


@pytest.fixture
def config(data_dir, tmp_path):
    """Two tasks over two captions per image, one frozen layer and one that trains."""
    same, pair = common.text_text() | {"right": "caption_0"}, common.text_text(0.5)
    same["options"]["temperature"] = pair["options"]["temperature"] = 0.05
    config = tiny.make_config(
        tasks={"same": same, "t2t": pair},
        total_steps=TOTAL_STEPS,
        batch_size=16,
    )
    config.model.image = config.data.image = None
    text = config.model.text
    text.vocab_size, text.max_positions, text.depth, text.lower_depth = 0, 20, 2, 1
    # Fresh layers hardly mix tokens: [CLS] would be the same for every caption.
    text.pool, config.model.similarity = "mean", "cosine"
    config.freeze, config.frozen_cache = [LOWER], str(tmp_path / "cache")
    config.optimizer.learning_rate = 0.05
    config.data.dataset, config.data.data_dir = TINY, data_dir
    config.data.text.vocabulary_size, config.data.text.max_length = 200, 12
    config.evaluation.every, config.evaluation.batch_size = 0, 24
    config.checkpoint.every, config.checkpoint.best_metric = 0, f"{TINY}/mean_recall@10"
    return config


def train(config, folder, monkeypatch):
    """The losses of a run by step."""
    losses, record = {}, reporting.Reporter.record

    def recording(self, step, scalars, image_ids):
        losses[step] = float(scalars["train/loss"])
        record(self, step, scalars, image_ids)

    with monkeypatch.context() as patch:
        patch.setattr(reporting.Reporter, "record", recording)
        loop.train(config, str(folder))
    return losses


def start(config):
    parts = preflight.assemble(config)
    return parts, loop.starting_state(parts, "/no/such/run")


def changed(config, **changes):
    config = config.copy_and_resolve_references()
    for path, value in changes.items():
        *parents, last = path.split("__")
        section = config
        for parent in parents:
            section = section[parent]
        section[last] = value
    return config


@pytest.mark.parametrize("lower_depth", [0, 1])
def test_the_losses_are_those_without_a_cache_to_rounding(
    config, tmp_path, monkeypatch, lower_depth
):
    config.model.text.lower_depth = lower_depth
    config.freeze = [LOWER if lower_depth else "text/bert"]
    found = train(config, tmp_path / "cached", monkeypatch)
    assert (tmp_path / "cache/text/key.json").exists()
    expected = train(changed(config, frozen_cache=""), tmp_path / "plain", monkeypatch)
    assert list(found) == list(expected) == list(range(TOTAL_STEPS))
    # bfloat16 keeps 8 bits of a feature; the loss averages over all of them.
    np.testing.assert_allclose(list(found.values()), list(expected.values()), rtol=5e-3)
    assert found[0] > 1.02 * found[TOTAL_STEPS - 1]
    # Evaluation needs no cache: nothing but rounding tells the two runs apart.
    metrics = [
        json.loads((tmp_path / run / "test/metrics.json").read_text())
        for run in ("cached", "plain")
    ]
    assert metrics[0].keys() == metrics[1].keys()
    monkeypatch.setattr(frozen_cache, "open_or_build", lambda *args: pytest.fail("not needed"))
    assert RunEvaluator.of_run(str(tmp_path / "cached")).config.frozen_cache == config.frozen_cache


def test_the_features_are_what_the_tower_gives(config):
    parts, state = start(config)
    store = frozen_cache.open_or_build(parts, state)
    batches = list(loop.make_batches(parts, 0))[:3]
    for plain, cached in zip(batches, frozen_cache.replace_ids(iter(batches), store), strict=True):
        assert cached.keys() == plain.keys() - {"text_ids"} | {"text_features"}
        for index in np.ndindex(plain["caption_id"].shape):
            inputs = {name: plain[name][index][None] for name in ("text_ids", "text_mask")}
            params = state.all_params()["text"]
            expected = parts.model.towers["text"].features(params, {}, inputs)[0]
            real = plain["text_mask"][index] > 0
            found = cached["text_features"][index].astype(np.float32)
            np.testing.assert_allclose(found[real], expected[real], rtol=2**-8, atol=1e-5)
            assert not found[~real].any()


@pytest.mark.parametrize(
    ("changes", "cause"),
    [
        ({"seed": 1}, "weights"),
        ({"data__text__max_length": 8}, "tokeniser"),
        ({"splits__train": "train[:30]"}, "captions"),
        ({"model__text__dtype": "bfloat16"}, "dtype"),
        ({"data__text__lower_case": False, "seed": 1}, "weights and tokeniser"),
    ],
)
def test_a_stale_cache_names_what_differs(config, tmp_path, changes, cause):
    config.model.text.vocab_size = 300
    frozen_cache.open_or_build(*start(config))
    files = {path: path.read_bytes() for path in (tmp_path / "cache/text").iterdir()}
    with pytest.raises(UserError, match=f"was made with other {cause} than this run.*delete"):
        frozen_cache.open_or_build(*start(changed(config, **changes)))
    assert {path: path.read_bytes() for path in files} == files
    frozen_cache.open_or_build(*start(config))


def test_trained_parameters_do_not_make_a_cache_stale(config):
    parts, state = start(config)
    frozen_cache.open_or_build(parts, state)
    moved = jax.tree.map(lambda leaf: leaf + 1, state.params)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(frozen_cache, "_build", lambda *args: pytest.fail("computed twice"))
        frozen_cache.open_or_build(parts, dataclasses.replace(state, params=moved))


def test_a_run_killed_while_it_computes_starts_over(config, tmp_path, monkeypatch):
    put, calls = frozen_cache.feature_store.Writer.put, []

    def dying(self, *args):
        if len(calls) == 2:
            raise KeyboardInterrupt
        calls.append(put(self, *args))

    with monkeypatch.context() as patch:
        patch.setattr(frozen_cache.feature_store.Writer, "put", dying)
        with pytest.raises(KeyboardInterrupt):
            loop.train(config, str(tmp_path / "run"))
    assert not (tmp_path / "cache/text").exists()
    assert not (tmp_path / "run").exists()
    assert len(train(config, tmp_path / "run", monkeypatch)) == TOTAL_STEPS


def test_a_continued_run_reads_the_same_features(config, tmp_path, monkeypatch):
    whole = train(config, tmp_path / "whole", monkeypatch)
    config.checkpoint.every = 5
    make_batches = loop.make_batches

    def dying(parts, first_step):
        for step, batch in enumerate(make_batches(parts, first_step), first_step):
            if step == 6:
                raise KeyboardInterrupt
            yield batch

    with monkeypatch.context() as patch:
        patch.setattr(loop, "make_batches", dying)
        with pytest.raises(KeyboardInterrupt):
            loop.train(config, str(tmp_path / "run"))
    assert checkpoints.steps(str(tmp_path / "run")) == [0, 5]
    rest = train(config, tmp_path / "run", monkeypatch)
    assert rest == {step: whole[step] for step in range(5, TOTAL_STEPS)}


def test_a_dry_run_computes_no_features(config, tmp_path):
    loop.train(config, str(tmp_path / "run"), dry_run=True)
    assert not (tmp_path / "cache").exists()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"freeze": []}, r"text/bert/\w+.*, but it is trained: match it by config.freeze"),
        ({"freeze": ["text/bert/lower_layers"]}, "text/bert/.*embeddings.*, but it is trained"),
        ({"freeze": ["text/bert/.*emb"]}, "text/bert/lower_layers.*, but it is trained"),
        ({"model__text__lower_depth": 0}, "text/bert/layers/.*, but it is trained"),
        ({"model__text__dropout": 0.1}, "config.model.text.dropout=0.1 changes what"),
        ({"frozen_cache": "gs://bucket/cache"}, "'gs://bucket/cache' cannot be memory-mapped"),
        ({"frozen_cache": __file__}, "_test.py' is a file or holds a file 'text'; give a new"),
    ],
)
def test_what_cannot_be_cached_is_said_without_data(config, monkeypatch, changes, message):
    monkeypatch.setattr(data, "prepare", lambda *args, **kwargs: pytest.fail("asked for data"))
    with pytest.raises(UserError, match=message):
        preflight.assemble(changed(config, **changes))


def test_a_model_without_bert_has_nothing_to_cache(tmp_path):
    config = tiny.make_image_config(frozen_cache=str(tmp_path))
    with pytest.raises(UserError, match="config.model.text is none; set config.frozen_cache=''"):
        preflight.build(config, mesh_lib.make_mesh())
