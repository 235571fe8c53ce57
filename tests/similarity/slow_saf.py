"""The comparisons of SGR and SAF, and SAF, one pair and one word at a time in float64."""

import numpy as np


def _unit(x):
    norm = np.sqrt(np.sum(x**2))
    return x / norm if norm else x


def linear(layer, x):
    return x @ np.asarray(layer["kernel"], np.float64) + np.asarray(layer["bias"], np.float64)


def compare_pair(params, image, text, scale=9.0):
    """The comparisons of `(tokens [T, W], vector [D])` of an image and a text, without padding."""
    regions, words = (np.asarray(each[0], np.float64) for each in (image, text))
    products = np.array([[region @ word for word in words] for region in regions])
    products = np.where(products > 0, products, 0.1 * products)
    products = np.array([_unit(row) for row in products])  # Over the words of each region.
    nodes = []
    whole = (np.asarray(image[1], np.float64) - np.asarray(text[1], np.float64)) ** 2
    nodes.append(_unit(linear(params["global"], whole)))
    for t, word in enumerate(words):
        weights = np.exp(scale * products[:, t])
        attended = sum(
            w * region for w, region in zip(weights / weights.sum(), regions, strict=True)
        )
        nodes.append(_unit(linear(params["local"], (_unit(attended) - word) ** 2)))
    return nodes


def score_pair(params, image, text, scale=9.0):
    """The logit of a pair, see `compare_pair`."""
    nodes = compare_pair(params, image, text, scale)
    gates = [1 / (1 + np.exp(-linear(params["gate"], node)[0])) for node in nodes]
    result = sum(gate * node for gate, node in zip(gates, nodes, strict=True)) / sum(gates)
    return linear(params["score"], _unit(result))[0]


def score_pairs(params, images, texts, **options):
    """Logits [L, R] of lists of images and texts, see `score_pair`."""
    return np.array(
        [[score_pair(params, image, text, **options) for text in texts] for image in images]
    )


def real_items(view):
    """The items of an embedding with padding, as `score_pair` takes them."""
    items = zip(view.extras["tokens"], view.extras["mask"], view.vector, strict=True)
    return [(np.asarray(tokens)[np.asarray(mask) > 0], np.asarray(v)) for tokens, mask, v in items]
