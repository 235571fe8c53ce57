"""Search for images and captions by a text or a picture; see `index.Index`."""

MODALITIES = {"image": "image", "caption": "text"}
"""Kind of an item -> the modality of a model that embeds it."""
KINDS = tuple(MODALITIES)
