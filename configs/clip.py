"""CLIP and SigLIP: a published folder evaluated on any dataset, or a size trained from nothing.

    python -m xmodal convert --model=clip --source=ViT-B-32.pt --output=weights/clip
    python -m xmodal.eval_main --config=configs/clip.py --config.init_from.model=weights/clip \\
        --config.data.manual_dir=COCO --output=results/clip

The folder brings the model, its tokenizer and its crop; it may also be one as published, which is
converted once. `--config.data.dataset=flickr30k` evaluates it on another dataset, and
`--config.data.image.size=336` at another size, to which its positions are resampled. CLIP's paper
writes "a photo of " before each caption, its code nothing:
`--config.data.text.prompt="a photo of {}"`.

    python -m xmodal.main --config=configs/clip.py:vit_b16 --config.data.manual_dir=DIR
    python -m xmodal.main --config=configs/clip.py:siglip_b16 --config.data.manual_dir=DIR \\
        --config.data.text.vocabulary=spiece.model

A size starts from random weights, on Conceptual Captions. CLIP's merges need `pip install
'.[clip]'`; the file of SigLIP's tokenizer is not in any package. `quick` and `quick_sigmoid` are
small, on the built-in dataset.

Radford et al., "Learning Transferable Visual Models From Natural Language Supervision" (2021), and
Zhai et al., "Sigmoid Loss for Language Image Pre-Training" (2023); sizes from openai/CLIP,
mlfoundations/open_clip and google-research/big_vision. AdamW decays matrices and tables in CLIP,
kernels alone in SigLIP, where the decay is not multiplied by the rate: here, 1e-4 / 1e-3.
Published rows of ViT-B/32 without a prompt (open_clip), R@1/5/10:
    COCO 5K  I->T 50.1 75.0 83.5   T->I 30.4 55.9 66.9
"""

from collections.abc import Callable
from functools import partial
from typing import Any

from ml_collections import ConfigDict

from configs import base, cxc

# Pixels, patch, (width, depth, heads, MLP) of the image tower, (width, depth, heads) of the text
# tower, embedding.
VITS = {
    "vit_b32": (224, 32, (768, 12, 12, 3072), (512, 12, 8), 512),
    "vit_b16": (224, 16, (768, 12, 12, 3072), (512, 12, 8), 512),
    "vit_l14": (224, 14, (1024, 24, 16, 4096), (768, 12, 12), 768),
    "vit_l14_336": (336, 14, (1024, 24, 16, 4096), (768, 12, 12), 768),
    "vit_h14": (224, 14, (1280, 32, 16, 5120), (1024, 24, 16), 1024),
    "vit_g14": (224, 14, (1408, 40, 16, 6144), (1024, 24, 16), 1024),
    "vit_bigg14": (224, 14, (1664, 48, 16, 8192), (1280, 32, 20), 1280),
}
# Pixels, width, units, heads of the pooling, text tower, embedding.
RESNETS = {
    "rn50": (224, 64, (3, 4, 6, 3), 32, (512, 12, 8), 1024),
    "rn101": (224, 64, (3, 4, 23, 3), 32, (512, 12, 8), 512),
    "rn50x4": (288, 80, (4, 6, 10, 6), 40, (640, 12, 10), 640),
    "rn50x16": (384, 96, (6, 8, 18, 8), 48, (768, 12, 12), 768),
    "rn50x64": (448, 128, (3, 15, 36, 10), 64, (1024, 12, 16), 1024),
}
# Pixels, patch, image tower, text tower, embedding, ids of a text.
_SO400M = (1152, 27, 16, 4304)
SIGLIPS = {
    "siglip_b16": (224, 16, (768, 12, 12, 3072), (768, 12, 12, 3072), 768, 64),
    "siglip_l16": (256, 16, (1024, 24, 16, 4096), (1024, 24, 16, 4096), 1024, 64),
    "siglip_so400m14": (224, 14, _SO400M, _SO400M, 1152, 16),
    "siglip_so400m14_384": (384, 14, _SO400M, _SO400M, 1152, 64),
    "siglip2_g16": (256, 16, (1536, 40, 16, 6144), _SO400M, 1536, 64),
}


def get_config(argument: str = "") -> ConfigDict:
    """A config without a model that evaluates, or one that trains the size of this name."""
    sizes: dict[str, Callable[..., ConfigDict]] = {"quick": quick, "quick_sigmoid": quick_sigmoid}
    sizes |= {name: partial(_pretrain, *vit(*size)) for name, size in VITS.items()}
    sizes |= {name: partial(_pretrain, *resnet(*size)) for name, size in RESNETS.items()}
    for name, size in SIGLIPS.items():
        # Pads are, in SigLIP, the end of a text; SigLIP 2 has Gemma's tokenizer.
        marks = ("<eos>", "<pad>") if name.startswith("siglip2") else ("</s>", "</s>")
        sizes[name] = partial(_pretrain_siglip, *siglip(*size), marks)
    # No model, no training: `init_from.model` brings the model.
    config = base.base("clip")
    config.data = base.dataset("coco_captions")
    config.data.image.size = 0  # The folder's.
    config.evals = {"benchmarks": base.benchmarks(batch_size=128)}
    return base.variant(config, argument, **sizes)


def vit(pixels: int, patch: int, image: tuple, text: tuple, width: int) -> tuple[dict, dict, int]:
    """Both towers of a CLIP with a Vision Transformer, and the size of its pictures."""
    encoder = {"name": "vit", "patch": patch, "patch_bias": False, "norm_before": True}
    encoder |= {"activation": "quick_gelu", "epsilon": 1e-5, "init": "clip"}
    encoder |= {"normalization": "clip", **_layers(*image)}
    projection = {"width": width, "bias": False, "init": "lecun"}
    return base.tower(encoder, "cls", **projection), _clip_text(text, width), pixels


def resnet(
    pixels: int, width: int, units: tuple, heads: int, text: tuple, embedding: int
) -> tuple[dict, dict, int]:
    """Both towers of a CLIP with a ResNet, whose pooling projects, and the size of its pictures."""
    encoder = {"name": "modified_resnet", "width": width, "units": units, "dtype": "bfloat16"}
    # As torch's DistributedDataParallel.
    encoder |= {"statistics": "per_device"}
    head = {"name": "attention_pool", "heads": heads, "width": embedding}
    return base.tower(encoder, head), _clip_text(text, embedding), pixels


def siglip(
    pixels: int, patch: int, image: tuple, text: tuple, embedding: int, length: int
) -> tuple[dict, dict, int, int]:
    """Both towers of a SigLIP, the size of its pictures, and the number of ids of its texts."""
    shared = {"activation": "gelu_tanh", "epsilon": 1e-6, "init": "siglip"}
    shared["position_resize"] = "corners"
    encoder = {"name": "vit", "patch": patch, "class_token": False, "normalization": "inception"}
    encoder |= {"drops_rest": True} if pixels % patch else {}
    head = {"name": "multihead_attention_pool", "heads": image[2], "mlp_dim": image[3]}
    words = {"name": "text_transformer", "vocab_size": 0, "max_positions": length, "causal": False}
    words |= _layers(*text) | shared
    images = base.tower(encoder | _layers(*image) | shared, head)
    return images, base.tower(words, "lasttoken", width=embedding, bias=True), pixels, length


def _layers(width: int, depth: int, heads: int, mlp_dim: int) -> dict[str, Any]:
    sizes = {"width": width, "depth": depth, "heads": heads, "mlp_dim": mlp_dim}
    return sizes | {"dtype": "bfloat16"}


def _clip_text(text: tuple, embedding: int) -> dict[str, Any]:
    width, depth, heads = text
    layers = _layers(width, depth, heads, 4 * width)
    encoder = {"name": "text_transformer", "vocab_size": 0, **layers}
    return base.tower(encoder, "lasttoken", width=embedding, bias=False, init="lecun")


def _pretrain(image: dict, text: dict, pixels: int, config: ConfigDict) -> ConfigDict:
    """CLIP's recipe: 32 epochs at a batch of 32,768."""
    config.total_steps, config.batch_size = "32 epochs", 32_768
    config.model = {"image": image, "text": text, "similarity": learned_scale()}
    config.tasks = {"i2t": cxc.image_text()}
    config.data = base.dataset("conceptual_captions")
    config.data.image = base.pixels(pixels, crops(), recipe="clip")
    tokenizer = {"tokenizer": "bpe", "vocabulary": "pip:open-clip-torch", "max_length": 77}
    config.data.text.update(tokenizer)
    config.evals.benchmarks.final_split = "validation"
    moments: dict[str, Any] = {"b2": 0.98, "eps": 1e-6}
    if image["encoder"]["name"] == "modified_resnet":
        moments = {"b1": 0.9, "b2": 0.999, "eps": 1e-8}
    config.optimizer = adamw(5e-4, decay=0.2, **moments)
    return config


def _pretrain_siglip(
    image: dict, text: dict, pixels: int, length: int, marks: tuple[str, str], config: ConfigDict
) -> ConfigDict:
    config = _pretrain(image, text, pixels, config)
    config.model.similarity = base.learned_cosine(0.1, bias=-10.0, learned_bias=True)
    config.tasks = {"i2t": base.pair_task("sigmoid", engine="dense")}
    config.data.image.eval_transform = "big_vision"
    pads = {"end": marks[0], "pad": marks[1], "attend_to_padding": True, "max_length": length}
    config.data.text.update({"tokenizer": "sentencepiece", "vocabulary": "", **pads})
    config.optimizer = adamw(1e-3, decay=0.1, decayed="kernel", clip_norm=1.0, b2=0.95)
    return config


def crops() -> dict[str, Any]:
    """`config.data.image.augment` of open_clip."""
    ranges = {"area": (0.9, 1.0), "aspect": (3 / 4, 4 / 3), "flip": False, "color": False}
    return {"crop": "torchvision", "filter": "bicubic", **ranges}


def learned_scale() -> dict[str, Any]:
    """CLIP's similarity, whose scale every update brings back to 1 to 100."""
    return base.learned_cosine(0.07, max_logit_scale=100.0)


def adamw(rate: float, decay: float, decayed: str = "(kernel|_embeddings)", **options: Any) -> dict:
    """`config.optimizer` that decays neither biases, norms nor the scale of the similarity."""
    return base.adamw(rate, decay, "up to 10000", decayed=f"(image|text)/.*{decayed}$", **options)


def quick(config: ConfigDict) -> ConfigDict:
    """Towers of two layers on the built-in dataset."""
    return _small(_pretrain(*vit(48, 8, (64, 2, 2, 128), (64, 2, 2), 64), config))


def quick_sigmoid(config: ConfigDict) -> ConfigDict:
    """The same with SigLIP's towers and loss."""
    layers = (64, 2, 2, 128)
    config = _pretrain_siglip(*siglip(48, 8, layers, layers, 64, 32), ("", ""), config)
    config = _small(config)
    config.data.text.update({"pad": "[SEP]", "attend_to_padding": True})
    config.model.similarity.bias = -4.0  # About -log of the batch.
    return config


def _small(config: ConfigDict) -> ConfigDict:
    size = config.data.image.size
    config = base.on_built_in_dataset(config, steps=50)
    config.log_every, config.optimizer.schedule.warmup_steps = 10, "up to 10"
    for modality in ("image", "text"):
        config.model[modality].encoder.dtype = "float32"
    config.data.image.size, config.data.text = size, base.wordpiece()
    return config
