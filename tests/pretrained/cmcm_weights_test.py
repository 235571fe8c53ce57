"""CMCM's checkpoints: parity with torch, and evaluation without training."""

import copy
import pickle
import sys
import types

import jax
import jax.numpy as jnp
import numpy as np
import parity
import published_coherence as published
import pytest
from published_polysemous import torch_pixels
from torch_resnet import make_resnet

from configs import cmcm_clue, released
from tests.saved_run import evaluate_weights
from xmodal.core.tree_paths import leaves_by_path, unflatten
from xmodal.data.text.tokenizer_files import read_vocabulary
from xmodal.evals.scores.rerank import SelectiveRefinement
from xmodal.models import make_dual_encoder, make_task_module
from xmodal.pretrained.converters import convert
from xmodal.pretrained.folder import read_model, read_part, read_weights, save_folder
from xmodal.train import published_towers
from xmodal.train.evaluation.run_evaluation import RunEvaluation

SMALL, CHANNELS = (2, 2), 512
# The empty word results from two tabs; "Red" is a different word from "red".
WORDS = ["a", "", "red", "circle", "above", "the", ".", "Red", "square"]
ROWS = len(WORDS) + 2
LENGTHS = (7, 1, 4, 2, 3)
RNG = np.random.default_rng(0)
IDS = RNG.integers(1, ROWS, (len(LENGTHS), 7))
MASK = np.arange(7) < np.array(LENGTHS)[:, None]
IDS[~MASK] = 0
PIXELS = parity.images(len(LENGTHS), 75)


class KeyedVectors:
    """Like the class that gensim saves."""


@pytest.fixture
def vocabulary(tmp_path):
    vectors = KeyedVectors()
    vectors.key_to_index = {word: number for number, word in enumerate(WORDS)}
    vectors.vectors = np.zeros((len(WORDS), 6), np.float32)
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "keyedvectors", types.ModuleType("k"))
        patch.setattr(KeyedVectors, "__module__", "keyedvectors")
        patch.setattr("keyedvectors.KeyedVectors", KeyedVectors, raising=False)
        (tmp_path / "word2vec_clue.bin").write_bytes(pickle.dumps(vectors, 4))
    return str(tmp_path / "word2vec_clue.bin")


def save(torch, modules, path, prefix="", classifier="discourse_classifier"):
    """A checkpoint as written by the trainer; the tester expects another classifier name."""
    names = {"discourse_classifier": classifier}
    checkpoint = {
        names.get(key, key): {prefix + name: x for name, x in module.state_dict().items()}
        for key, module in modules.items()
    }
    checkpoint["optimizer"] = {"state": {0: {"exp_avg": torch.ones(2)}}, "param_groups": []}
    torch.save(checkpoint, path)


def check_gradients(torch, folder, modules, functions, images, source):
    """Checks gradients of the texts and the classifier, which are converted like weights.

    The pictures' bottleneck has the layers of the texts'.
    """
    texts, _ = functions.texts(torch.tensor(IDS), LENGTHS)
    classes = torch.stack([functions.classify(texts, image.expand(5, 8)) for image in images])
    (parity.probe(texts) + parity.probe(torch.sigmoid(classes))).backward()
    gradients = copy.deepcopy(modules)
    for copied, module in zip(gradients.values(), modules.values(), strict=True):
        for own, parameter in zip(copied.parameters(), module.parameters(), strict=True):
            own.data = torch.zeros_like(own) if parameter.grad is None else parameter.grad
    save(torch, gradients, folder / "gradients.ckpt.pt")
    wanted, description, _ = convert("cmcm", folder / "gradients.ckpt.pt", *source)
    tower = make_dual_encoder(description.section()).towers["text"]
    module, classifier = read_classifier(folder / "made")
    params, state = parity.nest(read_weights(folder / "made/text"))
    columns = {"text_ids": IDS.astype(np.int32), "text_mask": MASK.astype(np.int32)}

    def compute(params, classifier):
        text = tower.apply(params, state, columns)[0].vector
        predicted = module.predict(classifier, images.numpy(), text)
        return parity.probe(text) + parity.probe(predicted)

    found = jax.jit(jax.grad(compute, argnums=(0, 1)))(params, classifier)
    # Those of gates are sums of terms up to a thousand times as large, which are rounded.
    rounding = 1e-6 * max(np.abs(each).max() for each in wanted.values())
    for prefix, tree in zip(("text/params/", "tasks/relations/module/"), found, strict=True):
        assert jax.tree.leaves(tree)
        for path, gradient in leaves_by_path(tree).items():
            expected = wanted[prefix + path]
            assert np.any(expected), path
            np.testing.assert_allclose(gradient, expected, 1e-4, rounding, err_msg=path)


def read_classifier(folder):
    """The module of the relations of a converted folder, and its parameters."""
    section = read_model(folder).tasks["relations"]["loss"]["module"]
    params = unflatten(read_part(folder, "tasks"))["relations"]["module"]
    return make_task_module("m", "relation_classifier", section), params


@pytest.mark.slow
@pytest.mark.parametrize(
    ("attention", "prefix", "classifier"),
    [
        ("scaled", "module.", "discourse_classifier"),
        ("", "", "discourse_class"),
    ],
)
def test_cmcm_equals_torch(torch, tmp_path, vocabulary, attention, prefix, classifier):
    cnn, forward = make_resnet(torch, SMALL)
    modules, functions = published.make_cmcm(
        torch, cnn, forward, channels=CHANNELS, rows=ROWS, attention=attention
    )
    save(torch, modules, tmp_path / "model_e9499.ckpt.pt", prefix, classifier)
    made = convert("cmcm", tmp_path / "model_e9499.ckpt.pt", attention, vocabulary)
    folder = tmp_path / "made"
    save_folder(folder, *made)
    assert list(read_vocabulary(folder / "text/vocab.txt")) == ["<pad>", "<unk>", *WORDS]

    model, _, found = parity.embed_converted(folder, PIXELS, IDS, MASK)
    with torch.no_grad():
        images = functions.images(torch_pixels(torch, PIXELS))
        texts, weights = functions.texts(torch.tensor(IDS), LENGTHS)
        logits = torch.stack([functions.classify(texts, image.expand(5, 8)) for image in images])
    assert parity.relative(found["image"].vector, images) < 1e-4
    assert parity.relative(found["text"].vector, texts) < 1e-4
    for row, each in enumerate(weights):
        ours = found["text"].extras["attention"][row]
        np.testing.assert_allclose(ours[: len(each)], each, rtol=1e-4, atol=1e-6)
        assert not np.any(ours[len(each) :])

    module, params = read_classifier(folder)
    modalities = [found[view] for view in ("image", "text")]
    predicted = module.predict(params, *(modality.vector for modality in modalities))
    np.testing.assert_allclose(predicted, torch.sigmoid(logits), rtol=1e-4, atol=1e-6)
    check_gradients(torch, tmp_path, modules, functions, images, (attention, vocabulary))

    scores = model.similarity.score(
        *(model.similarity.prepare(modality) for modality in modalities)
    ).T
    for gap in (0.05, 0.5):
        refined = SelectiveRefinement(0.12, gap)(scores, jnp.swapaxes(predicted, 0, 1))
        with torch.no_grad():
            wanted = published.refine(torch, functions, images, texts, gap=gap)
        np.testing.assert_allclose(refined, wanted, rtol=1e-4, atol=1e-5)


@pytest.mark.slow
def test_a_folder_is_evaluated_with_its_classifier(torch, tmp_path, vocabulary, few_shapes):
    cnn, forward = make_resnet(torch, SMALL)
    modules, _ = published.make_cmcm(
        torch, cnn, forward, channels=CHANNELS, rows=ROWS, attention="scaled"
    )
    save(torch, modules, tmp_path / "model.pt")
    folder = tmp_path / "made"
    save_folder(folder, *convert("cmcm", tmp_path / "model.pt", "", vocabulary))

    config = released.get_config("clue")
    config.init_from.model = str(folder)
    quick = cmcm_clue.get_config("quick")
    config.data.update(dataset="crisscrossed_shapes", config="coherence", data_dir=few_shapes)
    config.evals = {name: quick.evals[name] for name in ("pools", "refined", "relations")}
    parts = published_towers.build_untrained(config)
    assert parts.settings.data.image.size == 224
    assert [task.name for task in parts.tasks] == ["relations"]
    params, state = published_towers.load_weights(parts)
    evaluation = RunEvaluation(parts, trains=False)
    found = {
        each.evaluator: each.tagged
        for each in evaluate_weights(evaluation, params, state, name="released")
    }
    assert found["relations"]["relations/Story/base_rate"] > 0
    assert np.isfinite(found["refined"]["refined/t2i/median_rank"])
