"""Bundles: inference-only models that need no flax, orbax, optax or tensorflow.

bundle.json           the card: versions, hashes of all other files, preprocessing, similarity
weights.safetensors   our names -> arrays: `image/params/encoder/...`, `text/batch_stats/head/...`
image                 `jax.export` function of the image tower, for any batch size
text-8, text-16, ...  of the text tower, one per length of padded texts
vocab.txt             of a text tower

`exporting` makes a bundle, `bundle` reads one; nothing in a bundle is pickled.
"""

CARD = "bundle.json"
PLATFORMS = ("cpu", "cuda", "tpu")
"""Platforms of `jax.export` that a bundle is made for by default."""
KNOWN_PLATFORMS = (*PLATFORMS, "rocm")
