"""Oscar's folders give the scores, gradients and updates of a torch Oscar, one pair at a time."""

import argparse
import json
import sys

import jax
import jax.numpy as jnp
import numpy as np
import optax
import parity
import pytest

from xmodal.apps import convert as command
from xmodal.core.tree_paths import unflatten
from xmodal.data.pixels.regions import pad_rows
from xmodal.evals.scores import pair_scores
from xmodal.evals.scores.pair_scores import PairProgram, PairScores, Tokens
from xmodal.models import Features, make_dual_encoder
from xmodal.pretrained import converters
from xmodal.pretrained.model_folder import read_model, read_part, save_model
from xmodal.train.pair_functions import make_pair_functions

ROWS, WIDTH, HEADS, HIDDEN, DEPTH, REGION, LONGEST = 20, 32, 2, 48, 2, 10, 12
SEP = 3
WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", *(f"w{number}" for number in range(ROWS - 4))]
RNG = np.random.default_rng(0)


def draw_words(count):
    return RNG.integers(4, ROWS, count).tolist()


# The third caption leaves room for nothing but [SEP] behind it.
CAPTIONS = [[2, *draw_words(count), SEP] for count in (5, 1, 9)]
TAGS = [draw_words(7), [], draw_words(3)]
REGIONS = [RNG.normal(size=(count, REGION)).astype(np.float32) for count in (4, 2, 1)]
CONSTANT = tuple(f"cross_encoder/layers_{number}/layer/key/bias" for number in range(DEPTH))
RATE, DECAY = 1e-3, 0.05


def make_weights():
    """The names and shapes of BertForSequenceClassification in microsoft/Oscar."""
    shapes = {
        "bert.embeddings.word_embeddings.weight": (ROWS, WIDTH),
        "bert.embeddings.position_embeddings.weight": (LONGEST, WIDTH),
        "bert.embeddings.token_type_embeddings.weight": (2, WIDTH),
        "bert.img_embedding.weight": (WIDTH, REGION),
        "bert.pooler.dense.weight": (WIDTH, WIDTH),
        "classifier.weight": (2, WIDTH),
    }
    norms = ["bert.embeddings.LayerNorm", "bert.LayerNorm"]
    for number in range(DEPTH):
        layer = f"bert.encoder.layer.{number}."
        for name in ("self.query", "self.key", "self.value", "output.dense"):
            shapes[f"{layer}attention.{name}.weight"] = (WIDTH, WIDTH)
        shapes[f"{layer}intermediate.dense.weight"] = (HIDDEN, WIDTH)
        shapes[f"{layer}output.dense.weight"] = (WIDTH, HIDDEN)
        norms += [f"{layer}attention.output.LayerNorm", f"{layer}output.LayerNorm"]
    shapes |= {f"{name}.weight": (WIDTH,) for name in norms}
    shapes |= {
        name.replace("weight", "bias"): shape[:1]
        for name, shape in shapes.items()
        if "embeddings.weight" not in name
    }
    rng = np.random.default_rng(1)
    return {
        name: (rng.normal(0, 0.2, shape) + name.endswith("LayerNorm.weight")).astype(np.float32)
        for name, shape in shapes.items()
    }


class Oscar:
    """Scores one pair at a time, padded to LONGEST words and the most regions."""

    def __init__(self, weights):
        import torch

        self.weights = {name: torch.tensor(x, requires_grad=True) for name, x in weights.items()}

    def linear(self, name, x):
        return x @ self.weights[f"{name}.weight"].T + self.weights[f"{name}.bias"]

    def norm(self, name, x):
        import torch

        own = self.weights[f"{name}.weight"], self.weights[f"{name}.bias"]
        return torch.nn.functional.layer_norm(x, x.shape[-1:], *own, eps=1e-12)

    def embed(self, caption, tags):
        ids, types = list(caption), [0] * len(caption)
        if tags:
            kept = [*tags[: LONGEST - len(caption) - 1], SEP]
            ids, types = ids + kept, types + [1] * len(kept)
        real, padding = len(ids), LONGEST - len(ids)
        start = "bert.embeddings."
        tables = {"word": ids + [0] * padding, "token_type": types + [0] * padding}
        tables["position"] = list(range(LONGEST))
        x = sum(
            self.weights[f"{start}{table}_embeddings.weight"][at] for table, at in tables.items()
        )
        return self.norm(f"{start}LayerNorm", x), [1] * real + [0] * padding

    def layer(self, number, x, bias):
        import torch

        name = f"bert.encoder.layer.{number}."
        query, key, value = (
            self.linear(f"{name}attention.self.{part}", x).reshape(len(x), HEADS, -1).swapaxes(0, 1)
            for part in ("query", "key", "value")
        )
        weights = torch.softmax(query @ key.swapaxes(1, 2) / key.shape[-1] ** 0.5 + bias, dim=-1)
        attended = (weights @ value).swapaxes(0, 1).reshape(len(x), -1)
        change = self.linear(f"{name}attention.output.dense", attended)
        x = self.norm(f"{name}attention.output.LayerNorm", x + change)
        hidden = torch.nn.functional.gelu(self.linear(f"{name}intermediate.dense", x))
        return self.norm(f"{name}output.LayerNorm", x + self.linear(f"{name}output.dense", hidden))

    def logits(self, caption, tags, regions):
        import torch

        words, real = self.embed(caption, tags)
        missing = max(map(len, REGIONS)) - len(regions)
        regions = torch.tensor(np.pad(regions, [(0, missing), (0, 0)]))
        image = self.norm("bert.LayerNorm", self.linear("bert.img_embedding", regions))
        mask = torch.tensor([*real, *[1] * (len(regions) - missing), *[0] * missing])
        x = torch.cat([words, image])
        for number in range(DEPTH):
            x = self.layer(number, x, -10_000.0 * (1 - mask))
        return self.linear("classifier", torch.tanh(self.linear("bert.pooler.dense", x[0])))

    def all_logits(self):
        import torch

        rows = [
            torch.stack([self.logits(caption, tags, regions) for caption in CAPTIONS])
            for tags, regions in zip(TAGS, REGIONS, strict=True)
        ]
        return torch.stack(rows)

    def arrays(self, of=lambda x: x):
        return {name: of(x).detach().numpy() for name, x in self.weights.items()}


def convert(weights, path, words=LONGEST, **settings):
    torch = pytest.importorskip("torch")
    arrays = {name: torch.tensor(array) for name, array in weights.items()}
    torch.save(arrays, path / "pytorch_model.bin")
    arguments = argparse.Namespace(max_seq_length=words, max_img_seq_length=6, add_od_labels=True)
    torch.save(arguments, path / "training_args.bin")
    config = {
        "num_attention_heads": HEADS, "hidden_act": "gelu", "layer_norm_eps": 1e-12,
        "img_layer_norm_eps": 1e-12, "use_img_layernorm": 1,
    }  # fmt: skip
    (path / "config.json").write_text(json.dumps(config | settings))
    (path / "vocab.txt").write_text("\n".join(WORDS))
    save_model(
        path / "made", *converters.convert("vinvl", path, vocabulary=str(path / "vocab.txt"))
    )
    return path / "made"


def load(folder):
    model = make_dual_encoder(read_model(folder).model())
    image, _ = parity.nest(parity.read_weights(folder / "image"))
    return model, {"image": image, "cross_encoder": unflatten(read_part(folder, "cross_encoder"))}


def pad(rows, fill=0):
    longest = max(map(len, rows))
    padded = [np.pad(row, (0, longest - len(row)), constant_values=fill) for row in rows]
    return np.array(padded, np.int32)


def embed_images(model, params):
    image, mask = pad_rows(REGIONS, max(map(len, REGIONS)))
    columns = {
        # Padding changes nothing, whatever it holds.
        "image": np.where(mask[..., None], image, 9),
        "image_mask": mask,
        "image_tags": pad([[*tags, SEP] if tags else [] for tags in TAGS], -1),
    }
    return model.embed("image", params, {"image": {}}, columns)[0].extras["features"]


def text_features():
    return Features(jnp.asarray(pad(CAPTIONS))[..., None], jnp.asarray(pad(CAPTIONS) > 0))


def our_logits(model, params):
    images = model.cross_encoder.prepare("image", params, embed_images(model, params))
    texts = model.cross_encoder.prepare("text", params, text_features())
    every = jax.tree.map(lambda x: jnp.broadcast_to(x, (len(TAGS), *x.shape)), texts)
    return model.cross_encoder.logits(params, images, every)


def loss_of(log_p):
    """Cross-entropy of all pairs; text j belongs to image j."""
    matches = np.eye(len(TAGS), dtype=int)
    rows, columns = np.indices(matches.shape)
    return -log_p[rows, columns, matches].mean()


@pytest.mark.slow
def test_scores_gradients_and_updates_equal_torch(tmp_path):
    torch = pytest.importorskip("torch")
    theirs = Oscar(make_weights())
    model, params = load(convert(theirs.arrays(), tmp_path))
    start = params

    @jax.jit
    def compute(params):
        def loss(params):
            logits = our_logits(model, params)
            return loss_of(jax.nn.log_softmax(logits)), logits

        return jax.value_and_grad(loss, has_aux=True)(params)

    rule = torch.optim.AdamW(theirs.weights.values(), RATE, (0.9, 0.999), 1e-8, weight_decay=DECAY)
    optimizer = optax.chain(
        optax.clip_by_global_norm(1.0), optax.adamw(RATE, 0.9, 0.999, 1e-8, weight_decay=DECAY)
    )
    state = optimizer.init(params)
    for step in range(3):
        rule.zero_grad()
        wanted = theirs.all_logits()
        expected = loss_of(torch.log_softmax(wanted, -1))
        expected.backward()
        (value, logits), gradients = compute(params)
        assert abs(float(value) - expected.item()) < 1e-4
        if step == 0:
            odds = (wanted[..., 1] - wanted[..., 0]).detach()
            assert parity.relative(logits[..., 1] - logits[..., 0], odds) < 1e-5
            (tmp_path / "gradients").mkdir()
            folder = convert(theirs.arrays(lambda x: x.grad), tmp_path / "gradients")
            parity.check_gradients(gradients, load(folder)[1], ignored=CONSTANT)
        torch.nn.utils.clip_grad_norm_(theirs.weights.values(), 1.0)
        rule.step()
        updates, state = optimizer.update(gradients, state, params)
        params = optax.apply_updates(params, updates)
    (tmp_path / "after").mkdir()
    moved = load(convert(theirs.arrays(), tmp_path / "after"))[1]
    parity.check_updates(start, params, moved, ignored=CONSTANT)


def test_the_command_notes_assumed_values_and_another_evaluation(tmp_path, monkeypatch, capsys):
    described = read_model(convert(make_weights(), tmp_path, words=10))
    assert described.cross_encoder["length"] == 10
    assert described.sides["text"].preprocessing["max_length"] == 10
    assert described.sides["image"].preprocessing == {"max_regions": 6, "tags": True}
    (tmp_path / "training_args.bin").unlink()
    source, output = f"--source={tmp_path}", f"--output={tmp_path / 'other'}"
    monkeypatch.setattr(sys, "argv", ["convert", "--model=vinvl", source, output])
    command.main()
    printed = capsys.readouterr().out
    assert "Note: microsoft/Oscar ranks by probabilities" in printed
    assert "Note: Assumed as in VinVL's retrieval" in printed
    assert "max_seq_length=70, max_img_seq_length=70" in printed
    assert "note: Assumed as in VinVL's" in (tmp_path / "other/report.txt").read_text()


@pytest.mark.slow
def test_pretrained_classes_score_in_blocks(tmp_path, monkeypatch):
    weights = make_weights()
    theirs = Oscar(weights)
    head, bias = weights.pop("classifier.weight"), weights.pop("classifier.bias")
    # Matched, wrong tags, wrong caption.
    weights["cls.seq_relationship.weight"] = np.stack([head[1], -3 * head[0], head[0]])
    weights["cls.seq_relationship.bias"] = np.array([bias[1], 7, bias[0]])
    weights["cls.predictions.bias"] = np.zeros(ROWS, np.float32)
    model, params = load(convert(weights, tmp_path))
    # Texts of several padded lengths in a block.
    monkeypatch.setattr(pair_scores, "_MANY_PAIRS", 0)
    program = PairProgram(make_pair_functions(model), None)
    images = embed_images(model, params)
    images = Tokens(*(np.asarray(x) for x in (images.tokens, images.mask)), images.extras)
    texts = Tokens(pad(CAPTIONS)[..., None], pad(CAPTIONS) > 0)
    found = PairScores(program, params, images, texts).pairs(*np.indices((3, 3)).reshape(2, -1))
    logits = theirs.all_logits().detach()
    assert parity.relative(found.reshape(3, 3), logits[..., 1] - logits[..., 0]) < 1e-5
