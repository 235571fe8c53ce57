"""Released VSE++, VSRN and VSE-infinity: the embeddings, scores and losses that torch computes."""

import argparse
import pickle

import jax.numpy as jnp
import numpy as np
import parity
import published_matching as published
import pytest
from published_polysemous import torch_pixels
from torch_resnet import make_resnet

from xmodal.config import UserError
from xmodal.losses import LOSSES, Context
from xmodal.models.encoders import resnet
from xmodal.pretrained import vse_infinity
from xmodal.pretrained.model_converters import convert_model
from xmodal.pretrained.model_folder import save_model

SMALL, CHANNELS, ROWS = (2, 2), 512, 11
LENGTHS = (7, 1, 4, 2)
RNG = np.random.default_rng(0)
IDS = RNG.integers(1, ROWS, (len(LENGTHS), 7))
MASK = np.arange(7) < np.array(LENGTHS)[:, None]
IDS[~MASK] = 0
PIXELS = parity.images(len(LENGTHS), 75)
REGIONS = RNG.normal(size=(len(LENGTHS), 36, 5)).astype(np.float32)


@pytest.fixture
def torch(monkeypatch):
    monkeypatch.setitem(resnet.DEPTHS, "50", SMALL)
    return pytest.importorskip("torch")


def save(torch, modules, path, prefix="", **others):
    """The list of both sides, among other entries, as all these projects save it."""
    weights = [
        {prefix + name: tensor for name, tensor in module.state_dict().items()}
        for module in modules
    ]
    torch.save({"epoch": 3, "model": weights, "best_rsum": 400.0, "Eiters": 9, **others}, path)
    (path.parent / "vocab.pkl").write_bytes(
        pickle.dumps({"word2idx": {f"w{row}": row for row in range(ROWS)}})
    )


def assert_parity(torch, folder, functions, images):
    """Embeddings, scores and the loss of hardest negatives, to 1e-4 of the largest number."""
    model, description, found = parity.embed_converted(folder, images, IDS, MASK)
    with torch.no_grad():
        given = torch_pixels(torch, images) if images.dtype == np.uint8 else torch.tensor(images)
        expected = {
            "image": functions.images(given),
            "text": functions.texts(torch.tensor(IDS), torch.tensor(LENGTHS)),
        }
        scores = functions.score(expected["image"], expected["text"])
    similarity = model.similarity
    prepared = [similarity.prepare(found[side]) for side in ("image", "text")]
    ours = similarity.score(*prepared)
    assert parity.relative(ours, scores) < 1e-4
    for side, value in expected.items():
        vector = found[side].vector
        if similarity.name == "cosine":
            vector = similarity.prepare(found[side])
            value = published.normalize(value)
        assert parity.relative(vector, value) < 1e-4, side
    diagonal = scores.diag()
    off = ~torch.eye(len(scores), dtype=torch.bool)
    wanted = sum(
        ((0.2 + scores - d).clamp(min=0) * off).amax(axis).sum()
        for d, axis in ((diagonal[:, None], 1), (diagonal[None], 0))
    )
    items = jnp.arange(len(LENGTHS))
    context = Context(items, items, similarity)
    value, _ = LOSSES["triplet"].function(found["image"], found["text"], context)
    assert value == pytest.approx(wanted.item(), rel=1e-4)
    return description


def convert(name, path, variant=""):
    folder = path.parent / "made"
    vocabulary = str(path.parent / "vocab.pkl")
    save_model(folder, *convert_model(name, path, variant, vocabulary))
    return folder


@pytest.mark.parametrize(
    ("variant", "is_stored"),
    [("vsepp", False), ("vsepp", True), ("vse0", True), ("order", True), ("order0", True)],
)
def test_vsepp_equals_torch(torch, tmp_path, variant, is_stored):
    cnn, forward = (None, None) if is_stored else make_resnet(torch, SMALL)
    images = REGIONS[:, 0] if is_stored else PIXELS
    channels = images.shape[-1] if is_stored else CHANNELS
    modules, functions = published.make_vsepp(
        torch, cnn, forward, channels=channels, rows=ROWS, variant=variant
    )
    save(torch, modules, tmp_path / "model_best.pth.tar")
    folder = convert("vsepp", tmp_path / "model_best.pth.tar", variant)
    description = assert_parity(torch, folder, functions, images)
    assert (description.sides["image"].encoder["name"] == "precomputed") == is_stored


OPTIONS = {
    "vsepp": {"measure": "cosine", "use_abs": False, "no_imgnorm": False},
    "vse0": {"measure": "cosine", "use_abs": False, "no_imgnorm": True},
    "order": {"measure": "order", "use_abs": False},
    "order0": {"measure": "order", "use_abs": True, "no_imgnorm": False},
}


def test_a_checkpoint_s_own_options_name_its_variant(torch, tmp_path):
    modules, _ = published.make_vsepp(torch, None, None, channels=5, rows=ROWS, variant="order0")
    source, words = tmp_path / "model_best.pth.tar", str(tmp_path / "vocab.pkl")
    found = {}
    for variant, options in OPTIONS.items():
        save(torch, modules, source, opt=argparse.Namespace(**options))
        _, description, _ = convert_model("vsepp", source, vocabulary=words)
        assert description == convert_model("vsepp", source, variant, words)[1]
        found[variant] = (description.similarity["name"], description.sides["image"].projection)
    assert len(set(map(str, found.values()))) == len(OPTIONS)
    with pytest.raises(UserError, match="says? that it is the variant 'order0', not 'vsepp'"):
        convert_model("vsepp", source, "vsepp", words)
    save(torch, modules, source, opt={"measure": "cosine", "use_abs": True})
    with pytest.raises(UserError, match="measure='cosine', use_abs=True .* none of vsepp, vse0"):
        convert_model("vsepp", source, vocabulary=words)
    grids = {"precomp_enc_type": "backbone", "backbone_source": "detector"}
    assert vse_infinity.trained_variant(grids) == "detector"
    assert vse_infinity.trained_variant({**grids, "backbone_source": "wsl"}) == "imagenet"
    assert vse_infinity.trained_variant({**grids, "precomp_enc_type": "basic"}) is None


def test_a_wrong_model_is_named(torch, tmp_path):
    modules, _ = published.make_vse_infinity(
        torch, channels=5, text=published.make_bigru(torch, ROWS)
    )
    source = tmp_path / "model_best.pth"
    save(torch, modules, source)
    for asked in ("vsepp", "pvse", "vsrn"):
        with pytest.raises(UserError, match="looks like vse_infinity: give --model=vse_infinity"):
            convert_model(asked, source, vocabulary=str(tmp_path / "vocab.pkl"))


@pytest.mark.parametrize("is_flickr", [True, False])
def test_vsrn_equals_torch(torch, tmp_path, is_flickr):
    modules, functions = published.make_vsrn(torch, channels=5, rows=ROWS, is_flickr=is_flickr)
    save(torch, modules, tmp_path / "model_coco_1.pth.tar")
    assert_parity(torch, convert("vsrn", tmp_path / "model_coco_1.pth.tar"), functions, REGIONS)


@pytest.mark.parametrize(
    ("images", "text"),
    [("regions", "bigru"), ("regions", "bert"), ("grids", "bigru"), ("wsl", "bigru")],
)
def test_vse_infinity_equals_torch(torch, tmp_path, images, text):
    if text == "bert":
        made = published.make_bert(torch, pytest.importorskip("transformers"), ROWS)
    else:
        made = published.make_bigru(torch, ROWS)
    # Master wraps both sides in DataParallel, the branch with the BiGRU does not.
    prefix = "module." if text == "bert" else ""
    options = {"channels": 5}
    if images != "regions":
        kind = {"groups": 4, "group_width": 32} if images == "wsl" else {"like_caffe": True}
        cnn, forward = make_resnet(torch, SMALL, **kind)
        options = {"channels": CHANNELS, "cnn": cnn, "forward": forward}
    modules, functions = published.make_vse_infinity(torch, text=made, **options)
    save(torch, modules, tmp_path / "model_best.pth", prefix)
    folder = convert("vse_infinity", tmp_path / "model_best.pth")
    assert_parity(torch, folder, functions, REGIONS if images == "regions" else PIXELS)


def test_other_networks_are_refused(torch, tmp_path):
    modules, _ = published.make_vsepp(torch, None, None, channels=5, rows=ROWS, variant="vsepp")
    modules[0].cnn = torch.nn.Module()
    modules[0].cnn.features = torch.nn.Conv2d(3, 4, 3)
    save(torch, modules, tmp_path / "model_best.pth.tar")
    with pytest.raises(UserError, match="its CNN is no ResNet; VGG is not supported"):
        convert("vsepp", tmp_path / "model_best.pth.tar")
    with pytest.raises(UserError, match="has 0 arrays 'img_rnn.weight_ih_l0'"):
        convert("vsrn", tmp_path / "model_best.pth.tar")
