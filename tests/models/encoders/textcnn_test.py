"""The convolutional text encoder against loops, and against torch's convolutions."""

import numpy as np
import pytest

LENGTHS = (9, 1, 4, 5)
RNG = np.random.default_rng(0)
IDS = RNG.integers(0, 11, (4, 9), np.int32)
MASK = np.int32(np.arange(9) < np.array(LENGTHS)[:, None])
INPUTS = {"text_ids": IDS, "text_mask": MASK}
KEYWORDS = {"vocab_size": 11, "maps": 6, "embedding_width": 3}
HEAD = {"name": "max"}


@pytest.fixture
def params():
    arrays = {"table": RNG.normal(size=(11, 3)).astype(np.float32)}
    for window in (3, 4, 5):
        kernel, bias = RNG.normal(size=(window, 3, 6)), RNG.normal(size=6)
        convolution = {"kernel": kernel.astype(np.float32), "bias": bias.astype(np.float32)}
        arrays[f"window{window}"] = convolution
    return {"encoder": arrays}


def encode(ids, arrays):
    """The maximum over time of one text, with zero vectors up to the largest window."""
    words = [arrays["table"][i] for i in ids]
    words += [np.zeros(3)] * (5 - len(words))
    largest = []
    for window in (3, 4, 5):
        kernel, bias = arrays[f"window{window}"].values()
        starts = range(min(len(ids), len(words) - window + 1))
        values = [np.einsum("we,wem->m", words[t : t + window], kernel) + bias for t in starts]
        largest.append(np.maximum(values, 0).max(axis=0))
    return np.concatenate(largest)


@pytest.mark.slow
def test_equals_the_loop_for_texts_of_any_length(tower, params):
    made = tower("textcnn", head=HEAD, **KEYWORDS)
    vector = made.apply(params, {}, INPUTS)[0].vector
    expected = [
        encode(row[:length], params["encoder"]) for row, length in zip(IDS, LENGTHS, strict=True)
    ]
    np.testing.assert_allclose(vector, expected, rtol=1e-5, atol=1e-6)
    # More padding, other ids in it, or ids outside the table do not change a text.
    ids = np.pad(np.where(MASK, IDS, 99), ((0, 0), (0, 4)), constant_values=5)
    longer = {"text_ids": ids, "text_mask": np.pad(MASK, ((0, 0), (0, 4)))}
    np.testing.assert_allclose(made.apply(params, {}, longer)[0].vector, vector, rtol=1e-6)
    short = {name: column[1:3, :4] for name, column in INPUTS.items()}
    np.testing.assert_allclose(made.apply(params, {}, short)[0].vector, vector[1:3], rtol=1e-6)
