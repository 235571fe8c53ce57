"""What libraries keep in the folder of a model: the names of arrays, configs and tokenizers.

The names are the tables of the converters, the values of the files in published_layouts.toml.
"""

import collections
import dataclasses
import pathlib
import tomllib
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from xmodal.api.model_sources import Stored
from xmodal.core.errors import UserError
from xmodal.data.text.text_config import TextConfig
from xmodal.data.text.tokenizer_files import TokenizerFile, vocabulary_file
from xmodal.data.text.tokenizers import make_tokenizer
from xmodal.models import make_dual_encoder
from xmodal.pretrained import blip, vilt
from xmodal.pretrained.bert_weights import EPSILON, HUGGING_FACE
from xmodal.pretrained.clip_layouts import find_layout
from xmodal.pretrained.clip_settings import ACTIVATIONS, pixel_settings
from xmodal.pretrained.layer_rules import Table, nest, with_axes

_TEMPLATES = tomllib.loads(pathlib.Path(__file__).with_suffix(".toml").read_text())
LIBRARIES = {"open_clip": "open_clip_model.safetensors", "transformers": "model.safetensors"}
"""Library -> name of the file of a model's arrays."""
# Encoders of images and of texts, cross-encoder, similarity -> kind of model.
_KINDS = {
    ("vit", "text_transformer", "", "cosine"): "clip",
    ("modified_resnet", "text_transformer", "", "cosine"): "clip_resnet",
    ("vit", "bert", "cross_attention", "cosine"): "blip",
    ("patch_tokens", "token_ids", "single_stream", "dot"): "vilt",
    ("", "bert", "", "cosine"): "bert",
    ("vit", "", "", "cosine"): "vit",
}
_PROCESSORS = {"blip": "BlipImageProcessor", "vit": "ViTImageProcessor"}
_OPEN_CLIP_TOKENS = 49_408  # Of the tokenizer that open_clip carries.


class Layout(NamedTuple):
    """The folder of a model as a library publishes it.

    Attributes:
      kind: the converter that reads it, a key of `CONVERTERS`.
      table: paths of our arrays, such as `image/encoder/norm`, -> their names.
      files: files by name but for the weights: contents, or values for JSON.
    """

    kind: str
    table: Table
    files: Mapping[str, Any]


def find_layout_of(stored: Stored, library: str) -> Layout:
    """Returns the layout of a model in a library, a key of `LIBRARIES`."""
    parts = [stored.section.get(name) or {} for name in ("image", "text", "cross_encoder")]
    names = [part.get("encoder", part).get("name", "") for part in parts]
    kind = _KINDS.get((*names, stored.section["similarity"]["name"]), "")
    if kind == "clip" and parts[0]["head"]["name"] == "multihead_attention_pool":
        kind = "siglip"
    templates = _TEMPLATES[library]
    if kind not in templates:
        similarity, found = stored.section["similarity"]["name"], " and ".join(filter(None, names))
        raise UserError(
            f"{library} has no model like {stored.source['name']}, of {found}, similarity "
            f"{similarity}; known: {', '.join(templates)}. --tower exports one tower, "
            "--format=bundle any model."
        )
    facts = _find_facts(stored, kind)
    files = {name: _fill(values, facts) for name, values in templates[kind].items()}
    if library == "transformers" and "pixels.mode" in facts:
        template = _TEMPLATES["processors"][facts["pixels.mode"]]
        files["preprocessor_config.json"] = _fill(template, facts)
    if stored.texts:
        files |= layout_tokenizer(stored.texts[0], vocabulary_file(stored.texts[1]))
        if library == "open_clip" and facts["text.vocab_size"] != _OPEN_CLIP_TOKENS:
            texts = files["open_clip_config.json"]["model_cfg"]["text_cfg"]
            texts["hf_tokenizer_name"] = "local"  # The folder's own.
    tables = _find_tables(kind, library, facts)
    table = {f"{part}/{path}": x for part, own in tables.items() for path, x in own.items()}
    return Layout(kind.removesuffix("_resnet"), table, files)


def _find_facts(stored: Stored, kind: str) -> dict[str, Any]:
    """Returns what the templates name: settings of encoders, inputs and the cross-encoder."""
    model: Any = make_dual_encoder(stored.section)
    found: dict[str, Any] = {"images": stored.images, "texts": stored.texts and stored.texts[0]}
    if kind == "vilt":
        found["pair"] = model.cross_encoder.module.config
    found = {name: vars(config) for name, config in found.items() if config}
    acts = {ours: theirs for theirs, ours in ACTIVATIONS.items()}
    for name, tower in model.towers.items():
        section, usual = stored.section[name], {"activation": "gelu", "epsilon": EPSILON}
        own = collections.defaultdict(int, usual | vars(tower.module.encoder.config))
        rows, width, heads = own["vocab_size"], own["width"] or 1, own["heads"] or 1
        found[name] = own | {
            "act": acts[own["activation"]], "quick": own["activation"] == "quick_gelu",
            "head_width": width // heads, "mlp_ratio": own["mlp_dim"] / width,
            "projection": (section.get("projection") or {}).get("width", 0),
            "last": rows - 1, "before_last": rows - 2, "marked_size": rows + blip.NEW_TOKENS,
            **{head: section["head"]["name"] == head for head in ("cls", "mean")},
        }  # fmt: skip
    if stored.images is not None and kind != "vilt":
        found["pixels"] = pixel_settings(stored.images, found["image"]["normalization"])
        found["pixels"]["processor"] = _PROCESSORS.get(kind, "SiglipImageProcessor")
    return {f"{name}.{key}": x for name, values in found.items() for key, x in values.items()}


def _fill(template: Any, facts: Mapping[str, Any]) -> Any:
    if isinstance(template, dict):
        return {key: _fill(value, facts) for key, value in template.items()}
    is_fact = isinstance(template, str) and template.startswith("=")
    return facts[template[1:]] if is_fact else template


def _find_tables(kind: str, library: str, facts: Mapping[str, Any]) -> dict[str, Table]:
    if kind == "bert":
        return {"text": nest("encoder/", "", HUGGING_FACE)}
    if kind == "vit":
        return {"image": vilt.VIT}
    if kind == "blip":
        return blip.transformers_tables(facts["text.depth"])
    if kind == "vilt":
        return vilt.transformers_tables(facts["pair.depth"], facts["image.patch"])
    # By these names, the converter knows the layout.
    names = ["vision_model.embeddings.position_embedding.weight"]
    names += ["visual_projection.weight"] if kind == "clip" else []
    if library == "open_clip":
        names = ["text_projection", "visual.class_embedding"]
    if kind == "clip_resnet":
        names[1:] = ["visual.attnpool.c_proj.weight"] + [
            f"visual.layer{stage}.{unit}.conv1.weight"
            for stage, units in enumerate(facts["image.units"], 1)
            for unit in range(units)
        ]
    layout = find_layout(dict.fromkeys(names, np.zeros(())))
    numbers: dict[str, Any] = {key: with_axes(name) for key, name in layout.parameters.items()}
    if kind != "siglip":
        numbers = {"log_scale": layout.parameters["log_scale"]}
    return {**layout.towers, "similarity": numbers}


def layout_tokenizer(config: TextConfig, file: TokenizerFile) -> dict[str, Any]:
    """Returns the files of a tokenizer as transformers reads them; see `Layout.files`.

    Ids are equal up to cleaning that its tokenizers lack (ftfy for CLIP, BLIP's separators) or add
    (SigLIP's drops punctuation). CLIP's padding is the end of a text, as in openai's folders.
    """
    kind, templates = config.tokenizer, _TEMPLATES["tokenizers"]
    is_gemma = kind == "sentencepiece" and config.end != "</s>"
    if kind not in templates or is_gemma or not config.lower_case:
        raise UserError(
            f"config.data.text.tokenizer={kind!r} with lower_case={config.lower_case} and "
            f"end={config.end!r} has no counterpart; known: {', '.join(templates)}, in lower case, "
            "and Gemma's as tokenizer.json (`xmodal convert --vocabulary`)."
        )
    settings = _fill(templates[kind], {f"texts.{key}": x for key, x in vars(config).items()})
    files, ids = {"tokenizer_config.json": settings}, {token: n for n, token in enumerate(file)}
    if kind == "bpe":
        return files | {"merges.txt": file.content, "vocab.json": ids}
    if kind == "sentencepiece":
        return files | {"spiece.model": file.content}
    files |= {"vocab.txt": file.content} if kind == "wordpiece" else {}
    plain = dataclasses.replace(config, separators="", max_words=0)
    return files | {"tokenizer.json": str(make_tokenizer(plain, file).as_json()).encode()}
