"""Released VSE++, VSRN and VSE-infinity give the embeddings, scores and losses of torch."""

import argparse
import pickle
import shutil

import jax
import numpy as np
import parity
import published_matching as published
import pytest
from published_polysemous import torch_pixels
from torch_resnet import make_resnet

from xmodal.core.errors import UserError
from xmodal.pretrained import converters
from xmodal.pretrained.folder import read_model, save_folder

SMALL, CHANNELS, ROWS = (2, 2), 512, 11
LENGTHS = (7, 1, 4, 2)
RNG = np.random.default_rng(0)
IDS = RNG.integers(1, ROWS, (len(LENGTHS), 7))
MASK = np.arange(7) < np.array(LENGTHS)[:, None]
IDS[~MASK] = 0
PIXELS = parity.images(len(LENGTHS), 75)
REGIONS = RNG.normal(size=(len(LENGTHS), 36, 5)).astype(np.float32)


def save(torch, modules, path, prefix="", **others):
    """Saves the list of both modalities, among other entries, as in all these projects."""
    weights = [
        {prefix + name: tensor for name, tensor in module.state_dict().items()}
        for module in modules
    ]
    torch.save({"epoch": 3, "model": weights, "best_rsum": 400.0, "Eiters": 9, **others}, path)
    (path.parent / "vocab.pkl").write_bytes(
        pickle.dumps({"word2idx": {f"w{row}": row for row in range(ROWS)}})
    )


def convert(name, path, variant=""):
    folder = path.parent / "made"
    shutil.rmtree(folder, ignore_errors=True)
    vocabulary = str(path.parent / "vocab.pkl")
    save_folder(folder, *converters.convert(name, path, variant, vocabulary))
    return folder


def assert_parity(torch, modules, functions, images, make_folder):
    """Compares embeddings, scores, and the gradients of a sum of these.

    Args:
      torch: the library.
      modules: the torch module of each side.
      functions: the functions, see `published_matching`.
      images: uint8 pixels, or stored features.
      make_folder: saves and converts the modules in their current state; returns the folder.
    """
    model, params, state = parity.load(make_folder())
    similarity = model.similarity
    texts = {"text_ids": IDS.astype(np.int32), "text_mask": MASK.astype(np.int32)}
    inputs = {"image": {"image": images}, "text": texts}

    def compute(params):
        views = [model.embed(modality, params, state, inputs[modality])[0] for modality in inputs]
        scores = similarity.score(*map(similarity.prepare, views))
        return parity.probe(scores), (views, scores)

    (_, (views, scores)), gradients = jax.jit(jax.value_and_grad(compute, has_aux=True))(params)
    given = torch_pixels(torch, images) if images.dtype == np.uint8 else torch.tensor(images)
    expected = (
        functions.images(given),
        functions.texts(torch.tensor(IDS), torch.tensor(LENGTHS)),
    )
    for view, value in zip(views, expected, strict=True):
        vector = view.vector
        if similarity.name == "cosine":
            vector, value = similarity.prepare(view), published.normalize(value)
        assert parity.relative(vector, value.detach()) < 1e-4
    wanted = functions.score(*expected)
    assert parity.relative(scores, wanted.detach()) < 1e-4
    parity.probe(wanted).backward()
    with torch.no_grad():
        for parameter in (p for module in modules for p in module.parameters()):
            parameter.copy_(0 * parameter if parameter.grad is None else parameter.grad)
    parity.check_gradients(gradients, parity.load(make_folder())[1])


@pytest.mark.parametrize(
    ("variant", "is_stored"),
    [
        pytest.param("vsepp", False, marks=pytest.mark.slow),
        ("vse0", True),
        ("order0", True),
    ],
)
def test_vsepp_equals_torch(torch, tmp_path, variant, is_stored):
    cnn, forward = (None, None) if is_stored else make_resnet(torch, SMALL)
    images = REGIONS[:, 0] if is_stored else PIXELS
    channels = images.shape[-1] if is_stored else CHANNELS
    modules, functions = published.make_vsepp(
        torch, cnn, forward, channels=channels, rows=ROWS, variant=variant
    )
    source = tmp_path / "model_best.pth.tar"

    def make_folder():
        save(torch, modules, source)
        return convert("vsepp", source, variant)

    assert_parity(torch, modules, functions, images, make_folder)
    encoder = read_model(tmp_path / "made").towers["image"].encoder
    assert (encoder["name"] == "precomputed") == is_stored


OPTIONS = {
    "vsepp": {"measure": "cosine", "use_abs": False, "no_imgnorm": False},
    "vse0": {"measure": "cosine", "use_abs": False, "no_imgnorm": True},
    "order": {"measure": "order", "use_abs": False},
    "order0": {"measure": "order", "use_abs": True, "no_imgnorm": False, "max_violation": False},
    "order_absolute": {"measure": "order", "use_abs": True, "max_violation": True},
}


def test_a_checkpoint_s_own_options_name_its_variant(torch, tmp_path):
    modules, _ = published.make_vsepp(torch, None, None, channels=5, rows=ROWS, variant="order0")
    source, words = tmp_path / "model_best.pth.tar", str(tmp_path / "vocab.pkl")
    found = {}
    for variant, options in OPTIONS.items():
        save(torch, modules, source, opt=argparse.Namespace(**options))
        _, description, _ = converters.convert("vsepp", source, vocabulary=words)
        assert description == converters.convert("vsepp", source, variant, words)[1]
        found[variant] = (
            description.similarity["name"],
            description.towers["image"].projection,
        )
    assert found.pop("order_absolute") == found["order0"]
    assert len(set(map(str, found.values()))) == len(found)
    with pytest.raises(UserError, match="the variant 'order_absolute', not 'vsepp'"):
        converters.convert("vsepp", source, "vsepp", words)


@pytest.mark.parametrize("is_flickr", [pytest.param(True, marks=pytest.mark.slow), False])
def test_vsrn_equals_torch(torch, tmp_path, is_flickr):
    modules, functions = published.make_vsrn(torch, channels=5, rows=ROWS, is_flickr=is_flickr)
    source, saved = tmp_path / "model_coco_1.pth.tar", modules
    if not is_flickr:  # As AOQ's checkpoints, which also hold the caption decoder.
        decoder = torch.nn.ModuleDict({"embedding": torch.nn.Embedding(ROWS, 3)})
        saved = [*modules, torch.nn.ModuleDict({"encoder": torch.nn.ModuleDict(
            {"vid2hid": torch.nn.Linear(8, 4)}), "decoder": decoder})]  # fmt: skip

    def make_folder():
        save(torch, saved, source)
        return convert("vsrn", source)

    assert_parity(torch, modules, functions, REGIONS, make_folder)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("images", "text"),
    [("regions", "bert"), ("grids", "bigru"), ("wsl", "bigru")],
)
def test_vse_infinity_equals_torch(torch, tmp_path, images, text):
    if text == "bert":
        made = published.make_bert(torch, pytest.importorskip("transformers"), ROWS)
    else:
        made = published.make_bigru(torch, ROWS)
    # Master wraps both towers in DataParallel, the branch with the BiGRU does not.
    prefix = "module." if text == "bert" else ""
    options = {"channels": 5}
    if images != "regions":
        kind = {"groups": 4, "group_width": 32} if images == "wsl" else {"like_caffe": True}
        cnn, forward = make_resnet(torch, SMALL, **kind)
        options = {"channels": CHANNELS, "cnn": cnn, "forward": forward}
    modules, functions = published.make_vse_infinity(torch, text=made, **options)
    source = tmp_path / "model_best.pth"

    def make_folder():
        save(torch, modules, source, prefix)
        return convert("vse_infinity", source)

    inputs = REGIONS if images == "regions" else PIXELS
    assert_parity(torch, modules, functions, inputs, make_folder)
