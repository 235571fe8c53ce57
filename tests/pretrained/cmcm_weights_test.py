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
from xmodal.core.tree_paths import unflatten
from xmodal.data.text.tokenizer_files import read_vocabulary
from xmodal.evals.scores.rerank import refine_selectively
from xmodal.evals.scores.sources import Predictions
from xmodal.losses import LOSSES, Context
from xmodal.models import Embedding, make_dual_encoder, make_task_module
from xmodal.pretrained.converters import convert
from xmodal.pretrained.folder import read_weights
from xmodal.pretrained.model_folder import read_model, read_part, save_model
from xmodal.similarity import make_similarity
from xmodal.train import published_towers
from xmodal.train.evaluation.run_evaluation import RunEvaluation
from xmodal.train.tree import flatten

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


def check_gradients(torch, folder, modules, functions, images, labels, source):
    """Checks gradients of both losses, for texts and classifier, converted like weights.

    The pictures' bottleneck has the layers of the texts'.
    """
    images, labels = images.detach(), torch.tensor(labels).float()
    pos_weight = tuple(range(1, 7))
    texts, _ = functions.texts(torch.tensor(IDS), LENGTHS)
    entropy = torch.nn.functional.binary_cross_entropy_with_logits(
        functions.classify(texts, images), labels, pos_weight=torch.tensor(pos_weight)
    )
    (published.triplet_loss(torch, images, texts) + entropy).backward()
    gradients = copy.deepcopy(modules)
    for copied, module in zip(gradients.values(), modules.values(), strict=True):
        for own, parameter in zip(copied.parameters(), module.parameters(), strict=True):
            own.data = torch.zeros_like(own) if parameter.grad is None else parameter.grad
    save(torch, gradients, folder / "gradients.ckpt.pt")
    wanted, _, _ = convert("cmcm", folder / "gradients.ckpt.pt", *source)

    description = read_model(folder / "made")
    tower = make_dual_encoder(description.model()).towers["text"]
    ((name, task),) = description.tasks.items()
    module = make_task_module("m", "relation_classifier", task["loss"]["module"])
    params, state = parity.nest(read_weights(folder / "made/text"))
    columns = {"text_ids": IDS.astype(np.int32), "text_mask": MASK.astype(np.int32)}
    items, image = jnp.arange(len(LENGTHS)), Embedding(jnp.asarray(images.numpy()))

    def compute_loss(params, classifier):
        text, _ = tower.apply(params, state, columns)
        outputs, _ = module.apply(classifier, {}, image, text, {}, {})
        context = Context(
            items, items, make_similarity({"name": "euclidean"}),
            outputs=outputs, columns={"relations": labels.numpy()},
        )  # fmt: skip
        triplet, _ = LOSSES["distance_triplet"].function(image, text, context, margin=0.3)
        entropy, _ = LOSSES["relation_bce"].function(image, text, context, pos_weight=pos_weight)
        return triplet + entropy

    classifier = unflatten(read_part(folder / "made", "tasks"))[name]["module"]
    found = jax.jit(jax.grad(compute_loss, argnums=(0, 1)))(params, classifier)
    # Those of gates are sums of terms up to a thousand times as large, which are rounded.
    rounding = 1e-6 * max(np.abs(each).max() for each in wanted.values())
    for prefix, tree in zip(("text/params/", f"tasks/{name}/module/"), found, strict=True):
        assert jax.tree.leaves(tree)
        for path, gradient in flatten(tree).items():
            expected = wanted[prefix + path]
            assert np.any(expected), path
            np.testing.assert_allclose(gradient, expected, 1e-4, rounding, err_msg=path)


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
    save_model(folder, *made)
    assert read_vocabulary(folder / "text/vocab.txt") == ["<pad>", "<unk>", *WORDS]

    model, description, found = parity.embed_converted(folder, PIXELS, IDS, MASK)
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

    (task,) = description.tasks.values()
    module = make_task_module("m", "relation_classifier", task["loss"]["module"])
    params = unflatten(read_part(folder, "tasks"))["relations"]["module"]
    modalities = [found[view] for view in ("image", "text")]
    predicted = module.predict(params, *(modality.vector for modality in modalities))
    np.testing.assert_allclose(predicted, torch.sigmoid(logits), rtol=1e-4, atol=1e-6)

    # The training losses, and the similarity used for ranking in the paper's tables.
    items = jnp.arange(len(LENGTHS))
    context = Context(items, items, make_similarity({"name": "euclidean"}))
    value, _ = LOSSES["distance_triplet"].function(*modalities, context, margin=0.3)
    assert value == pytest.approx(published.triplet_loss(torch, images, texts).item(), rel=1e-4)
    labels = RNG.integers(0, 2, (len(LENGTHS), 6))
    pos_weight = (0.485, 14.117, 5.379, 3.122, 1.558, 10.518)
    wanted = torch.nn.functional.binary_cross_entropy_with_logits(
        functions.classify(texts, images), torch.tensor(labels).float(),
        pos_weight=torch.tensor(pos_weight),
    )  # fmt: skip
    outputs, _ = module.apply(params, {}, *modalities, {}, {})
    context = Context(
        items, items, context.similarity, outputs=outputs, columns={"relations": labels}
    )
    value, _ = LOSSES["relation_bce"].function(*modalities, context, pos_weight=pos_weight)
    assert value == pytest.approx(wanted.item(), rel=1e-4)
    check_gradients(torch, tmp_path, modules, functions, images, labels, (attention, vocabulary))

    scores = model.similarity.score(
        *(model.similarity.prepare(modality) for modality in modalities)
    ).T
    for gap in (0.05, 0.5):
        refined = refine_selectively(scores, jnp.swapaxes(predicted, 0, 1), strength=0.12, gap=gap)
        with torch.no_grad():
            wanted = published.refine(torch, functions, images, texts, gap=gap)
        np.testing.assert_allclose(refined, wanted, rtol=1e-4, atol=1e-5)


@pytest.mark.slow
def test_a_folder_is_evaluated_with_its_classifier(torch, tmp_path, vocabulary, few_shapes):
    """Refined pools and relations of the folder equal those computed from its arrays by hand."""
    cnn, forward = make_resnet(torch, SMALL)
    modules, _ = published.make_cmcm(
        torch, cnn, forward, channels=CHANNELS, rows=ROWS, attention="scaled"
    )
    save(torch, modules, tmp_path / "model.pt")
    folder = tmp_path / "made"
    save_model(folder, *convert("cmcm", tmp_path / "model.pt", "", vocabulary))

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
    source = evaluation.suite.evaluator("relations", "test").embeddings(
        evaluation.adapter(params, state)
    )
    own = unflatten(read_part(folder, "tasks"))["relations"]["module"]
    by_hand = Predictions(source.images @ own["left"], source.captions @ own["right"] + own["bias"])
    rows = RNG.integers(len(source.images), size=(2, 9))
    np.testing.assert_allclose(
        source.predictions["relations"].pairs(*rows), by_hand.pairs(*rows), rtol=1e-4, atol=1e-6
    )
    assert found["relations"]["relations/Story/base_rate"] > 0
    assert np.isfinite(found["refined"]["refined/t2i/median_rank"])
