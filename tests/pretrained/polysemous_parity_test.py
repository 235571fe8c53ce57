"""PVSE and PCME against torch: embeddings, and the gradient of every weight.

The weights come through the converters, under the names of the released checkpoints.
"""

import itertools

import jax
import numpy as np
import parity
import pytest
from published_polysemous import make_pcme, make_pvse, torch_pixels
from torch_resnet import make_resnet

from xmodal.models import make_dual_encoder
from xmodal.pretrained.folder import read_model

SMALL, CHANNELS, ROWS, SIZE = (2, 2), 512, 9, 5
LENGTHS = (7, 1, 4, 2, 3)
IDS = np.random.default_rng(0).integers(0, ROWS, (SIZE, 7))
INPUTS = {
    "image": {"image": parity.images(SIZE, 75)},
    "text": {
        "text_ids": IDS.astype(np.int32),
        "text_mask": np.int32(np.arange(7) < np.array(LENGTHS)[:, None]),
    },
}


def compare(torch, folder, model, functions, read, kind, variant="", **criterion):
    """Outputs of both modalities, and the gradients of a sum of them, equal torch's.

    Args:
      torch: the library.
      folder: a folder for files.
      model: the torch module.
      functions: its functions of both modalities to outputs.
      read: function from one of our embeddings to the same outputs.
      kind: the converter.
      variant: its variant.
      **criterion: further arrays of the checkpoint.

    Returns:
      The description of the converted model.
    """

    def convert(weights):
        own = {name: x for name, x in weights.items() if ".cnn.fc." not in name}
        words = [f"w{number}" for number in range(ROWS)]
        path = parity.new_folder(folder) / "model.pth"
        return parity.convert_torch(kind, own | criterion, path, words, variant)

    made = convert(model.state_dict())
    ours = make_dual_encoder(read_model(made).section())
    _, params, state = parity.load(made)

    def compute(params):
        encoder = jax.lax.stop_gradient(params["image"]["encoder"])
        params = {**params, "image": {**params["image"], "encoder": encoder}}
        views = [ours.embed(each, params, state, INPUTS[each])[0] for each in INPUTS]
        found = list(itertools.chain.from_iterable(map(read, views)))
        return sum(map(parity.probe, found)), found

    (_, found), gradients = jax.jit(jax.value_and_grad(compute, has_aux=True))(params)
    images = functions.images(torch_pixels(torch, INPUTS["image"]["image"]))
    wanted = [*images, *functions.texts(torch.tensor(IDS), torch.tensor(LENGTHS))]
    for output, expected in zip(found, wanted, strict=True):
        expected = expected.detach().reshape(output.shape)
        assert parity.relative(output, expected) < 1e-4
    sum(parity.probe(x) for x in wanted).backward()
    theirs = convert(dict(model.named_buffers()) | parity.gradients_of(torch, model))
    parity.check_gradients(gradients, parity.load(theirs)[1], ["image/encoder/"])
    return read_model(made)


@pytest.mark.slow
@pytest.mark.parametrize(("embeddings", "variant"), [(1, "legacy"), (3, "final")])
def test_pvse_equals_torch(torch, tmp_path, embeddings, variant):
    cnn, forward = make_resnet(torch, SMALL)
    model, functions = make_pvse(
        torch, cnn, forward,
        channels=CHANNELS, rows=ROWS, embeddings=embeddings, legacy=variant == "legacy",
    )  # fmt: skip

    def read(view):
        return view.vector, view.extras["residuals"], view.extras["attention"]

    made = compare(torch, tmp_path, model, functions, read, "pvse", variant)
    assert made.similarity == {"name": "cosine" if embeddings == 1 else "max_cosine"}


@pytest.mark.slow
def test_pcme_equals_torch(torch, tmp_path):
    cnn, forward = make_resnet(torch, SMALL)
    model, functions, criterion = make_pcme(torch, cnn, forward, channels=CHANNELS, rows=ROWS)
    learned = {f"criterion.{name}": array for name, array in criterion.state_dict().items()}

    def read(view):
        return view.extras["mean"], view.log_sigma

    made = compare(torch, tmp_path, model, functions, read, "pcme", **learned)
    assert made.parameters == pytest.approx({"match_scale": 0.7, "match_shift": 1.3})
