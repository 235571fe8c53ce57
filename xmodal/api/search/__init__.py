"""Search for images and captions by a text or a picture; see `index.Index`."""

SIDES = {"image": "image", "caption": "text"}
"""Kind of an item -> the side of a model that embeds it."""
KINDS = tuple(SIDES)
METHODS = ("auto", "exact", "approximate")
