"""Transformer parts in plain NumPy float64, one text and one head at a time."""

import numpy as np
from scipy import special


def dense(params, x):
    return x @ np.asarray(params["kernel"], np.float64) + np.asarray(params["bias"], np.float64)


def layer_norm(x, epsilon, scale, bias):
    mean, var = x.mean(-1, keepdims=True), x.var(-1, keepdims=True)
    return (x - mean) / np.sqrt(var + epsilon) * np.asarray(scale) + np.asarray(bias)


def gelu(x):
    return 0.5 * x * (1 + special.erf(x / np.sqrt(2)))


def relu(x):
    return np.maximum(x, 0)


def attention(query, key, value, length, heads):
    """All are [T, W]; only the first `length` keys are real."""
    size = query.shape[-1] // heads
    outputs = []
    for head in range(heads):
        part = slice(head * size, (head + 1) * size)
        scores = query[:, part] @ key[:length, part].T / np.sqrt(size)
        weights = np.exp(scores - scores.max(-1, keepdims=True))
        weights /= weights.sum(-1, keepdims=True)
        outputs.append(weights @ value[:length, part])
    return np.concatenate(outputs, axis=-1)


def mlp(params, x, activation):
    return dense(params["mlp_output"], activation(dense(params["mlp_hidden"], x)))


def bert_layer(params, x, length, heads):
    query, key, value = (dense(params[name], x) for name in ("query", "key", "value"))
    attended = attention(query, key, value, length, heads)
    x = layer_norm(x + dense(params["attention_output"], attended), 1e-12,
                   **params["attention_norm"])  # fmt: skip
    return layer_norm(x + mlp(params, x, gelu), 1e-12, **params["mlp_norm"])


def milan_block(params, x, length, heads):
    def norm(params, x):
        return layer_norm(x, 1e-6, 1 + np.asarray(params["gamma"]), params["beta"])

    a = norm(params["attention_norm"], x)
    scale = np.log1p(np.exp(np.asarray(params["query_scale"], np.float64))) / np.log1p(1.0)
    query = dense(params["query"], a) * np.tile(scale, heads)
    h = a + dense(
        params["attention_output"], attention(query, dense(params["key"], a), a, length, heads)
    )
    return h + mlp(params, norm(params["mlp_norm"], h), relu)


def standard_block(params, x, length, heads):
    a = layer_norm(x, 1e-6, **params["attention_norm"])
    query, key, value = (dense(params[name], a) for name in ("query", "key", "value"))
    x = x + dense(params["attention_output"], attention(query, key, value, length, heads))
    return x + mlp(params, layer_norm(x, 1e-6, **params["mlp_norm"]), relu)
