"""BLIP: a dual encoder whose text layers also attend to the image and rank its best pairs again.

    python -m xmodal convert --model=blip --source=model_base.pth --vocabulary=VOCAB \\
        --output=weights/blip
    python -m xmodal.main --config=configs/blip.py --config.init_from.model=weights/blip \\
        --config.data.manual_dir=COCO

VOCAB is the `vocab.txt` of bert-base-uncased. Evaluate a retrieval checkpoint as it is with
`released.py:blip`.

Li et al., "BLIP: Bootstrapping Language-Image Pre-training for Unified Vision-Language
Understanding and Generation" (2022), and salesforce/BLIP, configs/retrieval_coco.yaml: ViT-B/16,
the BERT of its text tower, a contrastive loss with momentum copies of the towers, and a matching
loss with negatives drawn by the similarities over the global batch. Differences from that code: the
rate falls with every step, not once an epoch; RandAugment is left out. The source must have the
positions of `config.data.image.size` pixels.

The paper's numbers are in `results/blip.toml`, not yet checked in the paper itself.
"""

from ml_collections import ConfigDict

from configs import base, itm, quickstart


def get_config(argument: str = "") -> ConfigDict:
    """`quick` runs on the built-in dataset."""
    return base.variant(experiment(), argument, quick=lambda config: quick())


def experiment() -> ConfigDict:
    """ViT-B/16 at 384 pixels and BERT-Base on COCO."""
    config = base.base("blip")
    config.total_steps, config.batch_size = "6 epochs", 256
    sizes = {"width": 768, "depth": 12, "heads": 12, "mlp_dim": 3072, "dtype": "bfloat16"}
    config.model = {
        "image": {
            "encoder": {
                "name": "vit", "patch": 16, "normalization": "clip", "remat": True, **sizes
            },
            "head": {"name": "first"},
            "projection": {"width": 256},
        },
        "text": {
            "encoder": {
                "name": "bert", "vocab_size": 30522, "max_positions": 512, "types": 0,
                "dropout": 0.1, **sizes,
            },
            "head": {"name": "first"},
            "projection": {"width": 256},
        },
        "similarity": {
            "name": "cosine", "temperature": 0.07, "learned_temperature": True, "max_scale": 1000.0
        },
        "pair_scorer": {"name": "cross_attention", "score": "logit"},
    }  # fmt: skip
    config.data = base.dataset("coco_captions")
    config.data.examples = "pairs"
    config.data.image.update({"size": 384, "eval_recipe": "squash"})
    config.data.image.augment = itm.RESIZED_CROP | {"area": (0.5, 1.0), "filter": "bicubic"}
    config.data.text.update({"max_length": 35, "separators": '.!"()*#:;~', "max_words": 30})
    config.tasks = {
        "i2t": _contrastive(57600),
        "matching": base.task("image", "caption_0", "matching"),
    }
    config.init_from.published = ("image/", "text/", "pair_scorer/")
    config.optimizer = base.adam(1e-5, {"name": "cosine", "warmup_steps": 0})
    config.optimizer.update({"name": "adamw", "weight_decay": {"rate": 0.05}})
    config.evals = {"coco": base.boards(every="1 epochs")}
    config.evals.coco.reranker = {"name": "pair_scorer", "top": 256, "add_first_stage": True}
    config.checkpoint.every = "1 epochs"
    return config


def _contrastive(size: int) -> dict:
    task = base.task("image", "caption_0", "momentum_softmax")
    # The weight of the copies' softmax in the targets rises during the first epoch.
    task["loss"]["options"]["soft"] = {
        "schedule": "linear", "from": 0.0, "to": 0.4, "start": 0, "end": "1 epochs"
    }  # fmt: skip
    task["loss"] |= {"inputs": ["image_id"], "module": {"size": size, "rate": 0.995}}
    return task


def quick() -> ConfigDict:
    """Two layers on each side, on the built-in dataset, without published weights."""
    config = quickstart.matching_quick(quickstart.multitask())
    config.name = "blip_quick"
    config.model.pair_scorer = {"name": "cross_attention", "score": "logit"}
    config.model.image.encoder = {
        "name": "vit", "patch": 8, "width": 64, "depth": 2, "heads": 2, "mlp_dim": 128
    }  # fmt: skip
    config.model.image.head = {"name": "first"}
    config.model.text.encoder.update({"width": 64, "depth": 2, "heads": 2, "mlp_dim": 128})
    config.model.text.head = {"name": "first"}
    config.tasks.i2t = _contrastive(256)
    config.model.similarity = {"name": "cosine", "temperature": 0.07, "learned_temperature": True}
    config.evals.reranked.reranker.add_first_stage = True
    return config
