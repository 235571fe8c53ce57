"""Makes a bundle of a model, and compares the two."""

import dataclasses
import functools
import os
from collections.abc import Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from etils import epath

from xmodal.api.bundles.card import KNOWN_PLATFORMS, PLATFORMS, Card
from xmodal.api.bundles.opening import runs_here
from xmodal.api.bundles.writing import Contents, write_bundle
from xmodal.api.loading import load
from xmodal.api.model_sources import Stored, make_model, read_folder
from xmodal.core.config import suggest
from xmodal.core.errors import UserError
from xmodal.core.tree_paths import unflatten
from xmodal.models import Devices, DualEncoder, make_dual_encoder
from xmodal.pretrained.folder import check_new
from xmodal.similarity import select_field
from xmodal.train.tree import flatten

_TOLERANCE = 1e-5


def export_model(
    source: str | os.PathLike,
    output: str | os.PathLike,
    *,
    step: int | str = "best",
    platforms: Sequence[str] = PLATFORMS,
    embeddings_only: bool = False,
) -> Card:
    """Writes a bundle of a model, and compares it with the model.

    Args:
      source: a run, or a folder of converted weights.
      output: the new folder.
      step: checkpoint of a run: a number, `best` or `latest`.
      platforms: platforms for the bundle, of `cpu`, `cuda`, `rocm` and `tpu`.
      embeddings_only: whether a cross-encoder, which a bundle cannot carry, is left out.

    Raises:
      UserError: the source cannot be read or exported, or the output already exists.
    """
    if unknown := [name for name in platforms if name not in KNOWN_PLATFORMS]:
        raise UserError(f"Unknown platform(s) {unknown}; {suggest(unknown, KNOWN_PLATFORMS)}")
    if not platforms:
        raise UserError(f"There are no platforms; known: {list(KNOWN_PLATFORMS)}.")
    check_new(output)
    stored = read_folder(source, step)
    if stored.config.model.get("cross_encoder") is not None:
        stored = _without_cross_encoder(stored, embeddings_only=embeddings_only)
    # Some layers are faster on a CPU in a special form; every form runs everywhere.
    platform = "cpu" if "cpu" in platforms else platforms[0]
    encoders = make_dual_encoder(stored.config.model, Devices(1, platform))
    contents = _contents(stored, encoders)
    return write_bundle(output, contents, platforms, functools.partial(_compare, stored))


def _without_cross_encoder(stored: Stored, *, embeddings_only: bool) -> Stored:
    name, config = stored.source["name"], stored.config.copy_and_resolve_references()
    if not make_dual_encoder(config.model).embeds:
        raise UserError(
            f"{name} has no embeddings, only a cross-encoder, which a bundle cannot carry: load "
            "the model itself with xmodal.load."
        )
    if not embeddings_only:
        raise UserError(
            f"{name} has a cross-encoder, which a bundle cannot carry: export its embeddings "
            "without it, with --embeddings_only, or load the model itself with xmodal.load."
        )
    with config.unlocked(), config.ignore_type():
        config.model.cross_encoder = None
    return dataclasses.replace(stored, config=config)


def _contents(stored: Stored, encoders: DualEncoder) -> Contents:
    weights = {
        side: flatten({"params": stored.params[side], **stored.model_state[side]})
        for side in encoders.towers
    }
    similarity, learned = encoders.similarity, stored.params.get("similarity", {})
    arrays: Mapping[str, Any] = {}
    if similarity.module is not None:
        arrays = similarity.select_parameters(learned)
        weights["similarity"] = flatten(arrays)
    numbers = {name: float(value) for name, value in learned.items() if name not in arrays}

    def embed(side: str, arrays: Any, columns: Mapping[str, jax.Array]) -> dict[str, jax.Array]:
        state = unflatten(arrays)
        params = state.pop("params", {})
        embedding, _ = encoders.embed(side, {side: params}, {side: state}, columns)
        found = {"vectors": select_field(embedding, similarity.config.field)}
        if embedding.log_sigma is not None:
            found["log_sigma"] = embedding.log_sigma
        if similarity.module is not None:
            found |= {name: embedding.extras[name] for name in ("tokens", "mask")}
        return {name: array.astype(jnp.float32) for name, array in found.items()}

    images = stored.images()
    return Contents(
        embed=embed,
        weights=weights,
        similarity=similarity,
        parameters=numbers,
        images=None if images is None else (images, _image_shape(stored)),
        texts=stored.texts(),
        source={**stored.source, "name": epath.Path(stored.source["name"]).name},
    )


def _image_shape(stored: Stored) -> tuple[int, ...]:
    """The shape of the encoder's image input."""
    images = stored.images()
    assert images is not None
    if images.size:
        return images.size, images.size, 3
    if images.max_regions:
        raise UserError(
            f"{stored.source['name']} takes images of up to {images.max_regions} regions; a bundle "
            "takes pictures, or features of one shape."
        )
    features = stored.config.model.image.encoder.features
    return (features,) if isinstance(features, int) else tuple(features)


def _compare(stored: Stored, folder: epath.Path, card: Card) -> None:
    """Raises an error if a bundle's embeddings differ from its source's."""
    if not runs_here(card.platforms):
        return
    model, bundle = make_model(stored), load(folder)
    pairs = {}
    if texts := stored.texts():
        words = texts[1][-6:]
        given = [words[-1], " ".join(words)]
        pairs["text"] = [np.asarray(each.embed_texts(given)) for each in (model, bundle)]
    if card.image is not None:
        rng = np.random.default_rng(0)
        noise = rng.uniform(0, 256 if card.image.dtype == "uint8" else 1, (2, *card.image.shape))
        images = noise.astype(card.image.dtype)
        pairs["image"] = [np.asarray(each.embed_images(images)) for each in (model, bundle)]
    for side, (expected, found) in pairs.items():
        largest = max(float(np.abs(expected).max()), 1.0)
        difference = float(np.abs(found - expected).max()) / largest
        if not difference <= _TOLERANCE:
            raise UserError(
                f"The {side} embeddings of the bundle differ by {difference:.1e} from those of "
                f"{stored.source['name']}: please report this with the config of the model."
            )
        print(f"{side}: differs from the model by at most {difference:.1e}")
