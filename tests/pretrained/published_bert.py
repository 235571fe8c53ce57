"""Random BERT weights under the names of every publisher."""

import dataclasses
import json

import numpy as np


@dataclasses.dataclass(frozen=True)
class Size:
    vocab_size: int
    width: int
    depth: int
    heads: int
    mlp_dim: int
    max_positions: int

    def config(self):
        """`config.json` in Google's and Hugging Face's format."""
        return {
            "model_type": "bert",
            "vocab_size": self.vocab_size,
            "hidden_size": self.width,
            "num_hidden_layers": self.depth,
            "num_attention_heads": self.heads,
            "intermediate_size": self.mlp_dim,
            "max_position_embeddings": self.max_positions,
            "type_vocab_size": 2,
            "hidden_act": "gelu",
            "layer_norm_eps": 1e-12,
        }


SMALL = Size(vocab_size=37, width=24, depth=3, heads=4, mlp_dim=40, max_positions=11)


def make_weights(size, seed=0):
    """Google's names of the first release -> float32 arrays, none of them symmetric or constant."""
    rng = np.random.default_rng(seed)
    shapes = {
        "bert/embeddings/word_embeddings": (size.vocab_size, size.width),
        "bert/embeddings/position_embeddings": (size.max_positions, size.width),
        "bert/embeddings/token_type_embeddings": (2, size.width),
        **_norm("bert/embeddings/LayerNorm", size.width),
        **_dense("bert/pooler/dense", size.width, size.width),
    }
    for layer in range(size.depth):
        start = f"bert/encoder/layer_{layer}/"
        for part in ("self/query", "self/key", "self/value", "output/dense"):
            shapes |= _dense(f"{start}attention/{part}", size.width, size.width)
        shapes |= _norm(f"{start}attention/output/LayerNorm", size.width)
        shapes |= _dense(f"{start}intermediate/dense", size.width, size.mlp_dim)
        shapes |= _dense(f"{start}output/dense", size.mlp_dim, size.width)
        shapes |= _norm(f"{start}output/LayerNorm", size.width)
    arrays = {}
    for name, shape in shapes.items():
        scale = 1 / np.sqrt(shape[0]) if name.endswith("kernel") else 0.3
        arrays[name] = rng.normal(name.endswith("gamma"), scale, shape).astype(np.float32)
    return arrays


def _dense(name, inputs, outputs):
    return {f"{name}/kernel": (inputs, outputs), f"{name}/bias": (outputs,)}


def _norm(name, width):
    return {f"{name}/gamma": (width,), f"{name}/beta": (width,)}


def to_hugging_face(weights, prefix="", old_names=False):
    """Converts names to those of `BertModel.save_pretrained`."""
    renamed = {}
    for name, array in weights.items():
        name = name.removeprefix("bert/").replace("layer_", "layer.").replace("/", ".")
        if name.endswith("_embeddings"):
            name += ".weight"
        if name.endswith(".kernel"):
            name, array = name.replace(".kernel", ".weight"), np.ascontiguousarray(array.T)
        if not old_names:
            name = name.replace(".gamma", ".weight").replace(".beta", ".bias")
        renamed[prefix + name] = array
    return renamed


def to_hub(weights, heads, version):
    """Converts names to those of the encoder on TF-Hub, version 1, or 2 and later."""
    words = {
        "bert/embeddings/word_embeddings": "word_embeddings/embeddings",
        "bert/pooler/dense": "pooler_transform",
        "attention/self/": "self_attention/",
        "attention/output/LayerNorm": "self_attention_layer_norm",
        "intermediate/dense": "intermediate",
        "output/LayerNorm": "output_layer_norm",
    }
    if version == 1:
        words |= {
            "bert/embeddings/token_type": "embedding_postprocessor/type",
            "bert/embeddings/position": "embedding_postprocessor/position",
            "bert/embeddings/LayerNorm": "embedding_postprocessor/layer_norm",
            "bert/encoder": "encoder",
            "attention/output/dense": "self_attention_output",
        }
    else:
        words |= {
            "bert/embeddings/token_type_embeddings": "type_embeddings/embeddings",
            "bert/embeddings/position_embeddings": "position_embedding/embeddings",
            "bert/embeddings/LayerNorm": "embeddings/layer_norm",
            "bert/encoder": "transformer",
            "attention/output/dense": "self_attention/attention_output",
        }
    renamed = {}
    for name, array in weights.items():
        if "attention/self/" in name:
            array = array.reshape(*array.shape[:-1], heads, -1)
        elif name.endswith("attention/output/dense/kernel"):
            array = array.reshape(heads, -1, array.shape[-1])
        for old, new in words.items():
            name = name.replace(old, new)
        name = name.replace("output/dense", "output")
        renamed[f"bert_model/{name}" if version == 1 else name] = array
    return renamed


def write_beside(folder, size, **changes):
    """The small files of a Hugging Face folder."""
    folder.mkdir(exist_ok=True, parents=True)
    (folder / "config.json").write_text(json.dumps(size.config() | changes))
    (folder / "vocab.txt").write_text(make_vocabulary(size.vocab_size))
    (folder / "tokenizer_config.json").write_text('{"do_lower_case": true}')


def make_vocabulary(size):
    """The text of a vocab.txt."""
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    return "\n".join(special + [f"w{number}" for number in range(size - len(special))]) + "\n"
