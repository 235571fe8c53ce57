"""Bundles: inference-only models that need no flax, orbax, optax or tensorflow.

bundle.json           the card: versions, hashes of all other files, preprocessing, similarity
weights.safetensors   our names -> arrays: `image/params/encoder/...`, `text/batch_stats/head/...`
image                 `jax.export` function of the image side, for any batch size
text-8, text-16, ...  of the text side, one per length of padded texts
vocab.txt             of a text side

`writing` makes a bundle, `opening` reads one; nothing in a bundle is pickled.
"""
