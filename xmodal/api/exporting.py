"""Makes a bundle of a model: lowers its functions for all platforms, and compares the two."""

import dataclasses
import os
from collections.abc import Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import safetensors.numpy
from etils import epath
from jax import export

from xmodal.api.bundles import KNOWN_PLATFORMS, PLATFORMS, bundle
from xmodal.api.bundles.bundle import Card, ImageCard, TextCard, open_bundle
from xmodal.api.model_sources import Stored, make_model, read_folder
from xmodal.core.config import lookup
from xmodal.core.errors import UserError
from xmodal.core.files import new_folder
from xmodal.core.mesh import make_mesh
from xmodal.core.tree_paths import leaves_by_path, unflatten
from xmodal.core.version import __version__
from xmodal.data.text.tokenizer_files import vocabulary_file
from xmodal.models import Devices, DualEncoder, make_dual_encoder
from xmodal.pretrained.folder import check_new
from xmodal.similarity import Similarity, select_field

_LENGTHS = (8, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024)


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
    """
    for name in platforms or [""]:
        lookup("platforms", name, dict.fromkeys(KNOWN_PLATFORMS))
    check_new(output)
    stored = read_embeddings(source, step, embeddings_only)
    card, contents = _lower_modalities(stored, platforms)
    with new_folder(output) as temporary:
        bundle.write_card(temporary, card, contents)
        if bundle.runs_here(platforms):
            compare_models(stored, open_bundle(temporary, make_mesh(jax.local_devices())), "bundle")
    return card


def read_embeddings(source: str | os.PathLike, step: int | str, embeddings_only: bool) -> Stored:
    """Returns a model without a cross-encoder, which may be left out; see `export_model`."""
    stored = read_folder(source, step)
    if stored.section.get("cross_encoder") is not None:
        if not (embeddings_only and make_dual_encoder(stored.section).embeds):
            raise UserError(
                f"{source} has a cross-encoder, which a bundle cannot carry: export its embeddings "
                "without it, if it has any, with --embeddings_only, or load the model itself with "
                "xmodal.load."
            )
        stored = dataclasses.replace(stored, section={**stored.section, "cross_encoder": None})
    return stored


def in_float32(stored: Stored) -> Stored:
    """Returns a model all of whose layers compute in float32."""
    section = jax.tree.map(lambda x: "float32" if x == "bfloat16" else x, stored.section)
    return dataclasses.replace(stored, section=section)


def _lower_modalities(stored: Stored, platforms: Sequence[str]) -> tuple[Card, dict[str, bytes]]:
    """Returns the card and the files of a bundle."""
    # Some layers are faster on a CPU in a special form; every form runs everywhere.
    platform = "cpu" if "cpu" in platforms else platforms[0]
    encoders = make_dual_encoder(stored.section, Devices(1, platform))
    similarity, learned = encoders.similarity, stored.params.get("similarity", {})
    arrays = {} if similarity.module is None else similarity.select_parameters(learned)
    weights = {
        modality: leaves_by_path(
            {"params": stored.params[modality], **stored.model_state[modality]}
        )
        for modality in encoders.towers
    }
    named = {
        f"{part}/{path}": np.ascontiguousarray(array)
        for part, leaves in (weights | {"similarity": leaves_by_path(arrays)}).items()
        for path, array in leaves.items()
    }
    contents = {bundle.WEIGHTS: safetensors.numpy.save(named)}
    numbers = {name: float(x) for name, x in learned.items() if name not in arrays}
    card = describe(stored, similarity)
    card = dataclasses.replace(card, platforms=tuple(platforms), parameters=numbers)
    if card.image is not None:
        columns = {"image": (card.image.shape, card.image.dtype)}
        contents["image"] = _lower(encoders, weights, columns, platforms)
    if card.text is not None and stored.texts is not None:
        for length in card.text.lengths:
            columns = dict.fromkeys(("text_ids", "text_mask"), ((length,), "int32"))
            contents[f"text-{length}"] = _lower(encoders, weights, columns, platforms)
        file = vocabulary_file(stored.texts[1])
        contents[file.name] = file.content
    return card, contents


def describe(stored: Stored, similarity: Similarity) -> Card:
    """Returns the card of an export, without platforms and the learned numbers of a similarity."""
    image = text = None
    if stored.images is not None:
        shape, dtype = _image_shape(stored), "uint8" if stored.images.size else "float32"
        image = ImageCard(dataclasses.replace(stored.images, augment=None), shape, dtype)
    if stored.texts is not None:
        config = dataclasses.replace(stored.texts[0], augment=None, vocabulary="")
        longest = config.max_length
        shorter = () if config.attend_to_padding else _LENGTHS
        text = TextCard(config, (*(length for length in shorter if length < longest), longest))
    # The functions return only the compared field.
    compared = {**dataclasses.asdict(similarity.config), "field": "vector", **similarity.options}
    return Card(
        made_with={"xmodal": __version__, "jax": jax.__version__},
        source={**stored.source, "name": epath.Path(stored.source["name"]).name},
        similarity=compared,
        image=image,
        text=text,
    )


def _image_shape(stored: Stored) -> tuple[int, ...]:
    """The shape of the encoder's image input."""
    assert stored.images is not None
    if stored.images.size:
        return stored.images.size, stored.images.size, 3
    if stored.images.max_regions:
        raise UserError(
            f"{stored.source['name']} takes images of up to {stored.images.max_regions} regions; "
            "a bundle takes pictures, or features of one shape."
        )
    features = stored.section["image"]["encoder"]["features"]
    return (features,) if isinstance(features, int) else tuple(features)


def _lower(
    encoders: DualEncoder,
    weights: Mapping[str, Mapping[str, np.ndarray]],
    columns: Mapping[str, tuple[tuple[int, ...], str]],
    platforms: Sequence[str],
) -> bytes:
    """Returns the function of one modality for any number of items."""
    modality = "image" if "image" in columns else "text"
    (items,) = export.symbolic_shape("items")
    inputs = {
        name: jax.ShapeDtypeStruct((items, *shape), dtype)
        for name, (shape, dtype) in columns.items()
    }
    shapes = jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype), dict(weights[modality]))

    @jax.jit
    def embed(arrays: Any, columns: Mapping[str, jax.Array]) -> dict[str, jax.Array]:
        """Returns `vectors`, `log_sigma` if probabilistic, and `tokens` if they are compared."""
        state, similarity = unflatten(arrays), encoders.similarity
        params = state.pop("params", {})
        embedding, _ = encoders.embed(modality, {modality: params}, {modality: state}, columns)
        found = {"vectors": select_field(embedding, similarity.config.field)}
        if embedding.log_sigma is not None:
            found["log_sigma"] = embedding.log_sigma
        if similarity.module is not None:
            found |= {name: embedding.extras[name] for name in ("tokens", "mask")}
        return {name: array.astype(jnp.float32) for name, array in found.items()}

    # Paths of source files on this machine are left out of the function.
    limit = jax.config.jax_traceback_in_locations_limit  # type: ignore[attr-defined]
    jax.config.update("jax_traceback_in_locations_limit", 0)
    try:
        lowered = export.export(embed, platforms=platforms)(shapes, inputs)
    finally:
        jax.config.update("jax_traceback_in_locations_limit", limit)
    return bytes(lowered.serialize())


def compare_models(stored: Stored, other: Any, what: str, tolerance: float = 1e-5) -> None:
    """Raises an error if a model's embeddings or scores of pairs differ from its source's.

    Args:
      stored: the source.
      other: the model that was made of it, or an object with its `embed_*` and `pairs`.
      what: its kind, for errors.
      tolerance: largest difference, as a share of the largest number if that is above 1.
    """
    model = make_model(stored)
    found: list[dict[str, np.ndarray]] = [{}, {}]
    texts, images = [], np.zeros(0)
    if stored.texts:
        # ASCII last: pieces of UTF-8, which CLIP's merges end with, are mended as broken texts.
        words = sorted(stored.texts[1], key=str.isascii)[-6:]
        texts = [f"Two dogs, one of them brown, run on a {words[-1]}.", " ".join(words)]
    if stored.images is not None:
        is_picture, rng = stored.images.size > 0, np.random.default_rng(0)
        noise = rng.uniform(0, 256 if is_picture else 1, (2, *_image_shape(stored)))
        images = noise.astype("uint8" if is_picture else "float32")
    for each, outputs in zip((model, other), found, strict=True):
        if make_dual_encoder(stored.section).embeds:
            if stored.texts:
                outputs["text embeddings"] = np.asarray(each.embed_texts(texts))
            if stored.images is not None:
                outputs["image embeddings"] = np.asarray(each.embed_images(images))
        if each.pairs is not None:
            outputs["scores of pairs"] = each.score_pairs(list(images), texts)
    for kind, expected in found[0].items():
        largest = max(float(np.abs(expected).max()), 1.0)
        difference = float(np.abs(found[1][kind] - expected).max()) / largest
        if not difference <= tolerance:
            raise UserError(
                f"The {kind} of the {what} differ by {difference:.1e} from those of "
                f"{stored.source['name']}."
            )
        print(f"{kind}: differ from the model's by at most {difference:.1e}")
