"""Oscar's folders give the scores, gradients and updates of a torch Oscar, one pair at a time."""

import argparse
import json

import jax
import jax.numpy as jnp
import numpy as np
import optax
import parity
import pytest

from xmodal.data.pixels.regions import pad_rows
from xmodal.models import Features
from xmodal.pretrained import converters
from xmodal.pretrained.folder import save_folder

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


def make_oscar():
    """The modules of BertForSequenceClassification in microsoft/Oscar, on BERT of transformers."""
    torch, transformers = pytest.importorskip("torch"), pytest.importorskip("transformers")
    config = transformers.BertConfig(
        vocab_size=ROWS, hidden_size=WIDTH, num_hidden_layers=DEPTH, num_attention_heads=HEADS,
        intermediate_size=HIDDEN, max_position_embeddings=LONGEST, layer_norm_eps=1e-12,
        attn_implementation="eager",
    )  # fmt: skip
    torch.manual_seed(0)
    model = torch.nn.Module()
    model.bert = transformers.BertModel(config)
    model.bert.img_embedding = torch.nn.Linear(REGION, WIDTH)
    model.bert.LayerNorm = torch.nn.LayerNorm(WIDTH, eps=1e-12)
    model.classifier = torch.nn.Linear(WIDTH, 2)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.2 * torch.randn(parameter.shape))
    return model.eval()


def logits_of(model, caption, tags, regions):
    """The logits of one pair, padded to LONGEST words and the most regions."""
    import torch

    ids, types = list(caption), [0] * len(caption)
    if tags:
        kept = [*tags[: LONGEST - len(caption) - 1], SEP]
        ids, types = ids + kept, types + [1] * len(kept)
    padding, missing = LONGEST - len(ids), max(map(len, REGIONS)) - len(regions)
    mask = [1] * len(ids) + [0] * padding + [1] * len(regions) + [0] * missing
    words = model.bert.embeddings(
        torch.tensor([ids + [0] * padding]), torch.tensor([types + [0] * padding])
    )
    regions = torch.tensor(np.pad(regions, [(0, missing), (0, 0)]))
    image = model.bert.LayerNorm(model.bert.img_embedding(regions))
    bias = -10_000.0 * (1 - torch.tensor(mask, dtype=torch.float32))
    x = model.bert.encoder(
        torch.cat([words, image[None]], 1), attention_mask=bias[None, None, None]
    )
    return model.classifier(model.bert.pooler(x.last_hidden_state))[0]


def all_logits(model):
    import torch

    rows = [
        torch.stack([logits_of(model, caption, tags, regions) for caption in CAPTIONS])
        for tags, regions in zip(TAGS, REGIONS, strict=True)
    ]
    return torch.stack(rows)


def convert(weights, path, words=LONGEST, **settings):
    torch = pytest.importorskip("torch")
    torch.save(weights, path / "pytorch_model.bin")
    arguments = argparse.Namespace(max_seq_length=words, max_img_seq_length=6, add_od_labels=True)
    torch.save(arguments, path / "training_args.bin")
    config = {
        "num_attention_heads": HEADS, "hidden_act": "gelu", "layer_norm_eps": 1e-12,
        "img_layer_norm_eps": 1e-12, "use_img_layernorm": 1,
    }  # fmt: skip
    (path / "config.json").write_text(json.dumps(config | settings))
    (path / "vocab.txt").write_text("\n".join(WORDS))
    save_folder(
        path / "made", *converters.convert("vinvl", path, vocabulary=str(path / "vocab.txt"))
    )
    return path / "made"


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


def our_logits(model, params):
    texts = Features(jnp.asarray(pad(CAPTIONS))[..., None], jnp.asarray(pad(CAPTIONS) > 0))
    pairs = parity.all_pairs(model, params, embed_images(model, params), texts)
    return model.cross_encoder.logits(params, *pairs)


def odds_of(logits):
    return logits[..., 1] - logits[..., 0]


def loss_of(log_p):
    """Cross-entropy of all pairs; text j belongs to image j."""
    matches = np.eye(len(TAGS), dtype=int)
    rows, columns = np.indices(matches.shape)
    return -log_p[rows, columns, matches].mean()


@pytest.mark.slow
def test_scores_gradients_and_updates_equal_torch(tmp_path):
    torch = pytest.importorskip("torch")
    theirs = make_oscar()
    model, params, _ = parity.load(convert(theirs.state_dict(), tmp_path))

    @jax.jit
    @jax.value_and_grad
    def compute(params):
        return loss_of(jax.nn.log_softmax(our_logits(model, params)))

    logits = jax.jit(lambda params: our_logits(model, params))(params)
    assert parity.relative(odds_of(logits), odds_of(all_logits(theirs).detach())) < 1e-5
    parity.check_three_steps(
        theirs,
        torch.optim.AdamW(theirs.parameters(), RATE, (0.9, 0.999), 1e-8, weight_decay=DECAY),
        lambda: loss_of(torch.log_softmax(all_logits(theirs), -1)),
        params,
        optax.chain(
            optax.clip_by_global_norm(1.0),
            optax.adamw(RATE, 0.9, 0.999, 1e-8, weight_decay=DECAY),
        ),
        compute,
        lambda weights: parity.load(convert(weights, parity.new_folder(tmp_path)))[1],
        clip=1.0,
        ignored=CONSTANT,
    )


@pytest.mark.slow
def test_pretrained_classes_become_those_of_retrieval(tmp_path):
    import torch

    theirs = make_oscar()
    weights = theirs.state_dict()
    head, bias = weights.pop("classifier.weight"), weights.pop("classifier.bias")
    # Matched, wrong tags, wrong caption.
    weights["cls.seq_relationship.weight"] = torch.stack([head[1], -3 * head[0], head[0]])
    weights["cls.seq_relationship.bias"] = torch.tensor([bias[1], 7, bias[0]])
    weights["cls.predictions.bias"] = torch.zeros(ROWS)
    model, params, _ = parity.load(convert(weights, tmp_path))
    wanted = odds_of(all_logits(theirs).detach())
    assert parity.relative(odds_of(our_logits(model, params)), wanted) < 1e-5
