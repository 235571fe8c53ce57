"""The language model against a loop over torch's GRU."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from torch_gru import check, check_gradients, make_gru

from xmodal.models import Embedding, make_task_module

VOCABULARY, WORDS, WIDTH = 9, 4, 5
LENGTHS = (6, 2, 4)
IDS = np.zeros((3, 6), np.int32)
for _row, _length in enumerate(LENGTHS):
    IDS[_row, :_length] = [1, *range(3, _length + 1), 2]
MASK = np.int32(np.arange(6) < np.array(LENGTHS)[:, None])
COLUMNS = {"text_ids": IDS, "text_mask": MASK}
RNG = np.random.default_rng(0)
TABLE = RNG.normal(size=(VOCABULARY, WORDS)).astype(np.float32)
READS = {"text/encoder/table": jnp.asarray(TABLE)}
CAPTIONS = Embedding(RNG.normal(size=(3, 2)).astype(np.float32))
IMAGES = Embedding(RNG.normal(size=(3, 7)).astype(np.float32))


def make(views, **config):
    module = make_task_module("loss.module", "language_model", {"width": WIDTH, **config})
    shapes, state = jax.eval_shape(
        lambda key: module.init(key, *views, COLUMNS, READS), jax.random.key(0)
    )
    assert state == {}
    draw = lambda leaf: RNG.normal(size=leaf.shape).astype(np.float32)  # noqa: E731
    return module, jax.tree.map(draw, shapes)


@pytest.mark.slow
@pytest.mark.parametrize("views", [(CAPTIONS, None), (IMAGES, CAPTIONS)], ids=["text", "image"])
def test_equals_torch_word_by_word(views):
    torch = pytest.importorskip("torch")
    module, params = make(views)
    assert ("start" in params) == (views[1] is not None)

    def total(params, table):
        outputs, _ = module.apply(params, {}, *views, COLUMNS, {"text/encoder/table": table})
        return outputs["nll"].sum(), outputs

    (_, outputs), (gradients, table_gradient) = jax.value_and_grad(total, (0, 1), has_aux=True)(
        params, READS["text/encoder/table"]
    )
    np.testing.assert_array_equal(outputs["targets"], np.array(LENGTHS) - 1)

    gru = make_gru(torch, {"forward": params["cell"]})
    table = torch.tensor(TABLE, requires_grad=True)
    output = torch.tensor(params["output"]["kernel"], requires_grad=True)
    expected = []
    for row, length in enumerate(LENGTHS):
        state = torch.zeros(WIDTH)
        if views[1] is not None:
            start = params["start"]
            state = torch.tensor(np.tanh(IMAGES.vector[row] @ start["kernel"] + start["bias"]))
        ids = torch.tensor(IDS[row, :length], dtype=torch.long)
        states, _ = gru(table[ids[:-1]][None], state[None, None].float())
        logits = states[0] @ output @ table.T + torch.tensor(params["bias"])
        expected.append(torch.nn.functional.cross_entropy(logits, ids[1:], reduction="sum"))
    expected = torch.stack(expected)
    np.testing.assert_allclose(outputs["nll"], expected.detach(), rtol=1e-4)
    expected.sum().backward()
    check_gradients(gru, {"forward": gradients["cell"]})
    check(table_gradient, table.grad)
    check(gradients["output"]["kernel"], output.grad)
