"""VinVL: one BERT over the words of a caption, the objects that a detector names, and its regions.

    python -m data_prep.build --dataset=region_features --config=coco_vinvl --manual_dir=COCO
    python -m xmodal convert --model=vinvl --source=FOLDER --output=weights/vinvl
    python -m xmodal.main --config=configs/vinvl.py --config.init_from.model=weights/vinvl

FOLDER is one of microsoft/Oscar, with `pytorch_model.bin`, `config.json` and `vocab.txt`. Evaluate
a retrieval checkpoint as it is with `released.py:vinvl`. `large` has the sizes and the rate of the
large model. `--config.data.config=vinvl` reads the regions of any images.

Zhang et al., "VinVL: Revisiting Visual Representations in Vision-Language Models" (2021), after Li
et al., "Oscar: Object-Semantics Aligned Pre-training for Vision-Language Tasks" (2020), and
microsoft/Oscar, oscar/run_retrieval.py and VinVL_MODEL_ZOO.md: captions and tags of up to 70
tokens, 70 regions, and for every caption one negative, a caption or an image by a fair coin.
Differences from that code: negatives are from the batch, not from the whole dataset; the first
update has the first rate of the schedule, not the second; the classifier of a pretrained folder
starts from its classes of a wrong caption and of a match, not at random; the decay of weights is
computed before a step, not after it. Pairs are ranked by log-odds, without the ties of that code's
probabilities, on all 5,000 images.

VinVL_MODEL_ZOO.md, COCO 5K, R@1/5:
    base   I->T 74.6 92.6   T->I 58.1 83.2
    large  I->T 75.4 92.9   T->I 58.8 83.5
"""

from typing import Any

from ml_collections import ConfigDict

from configs import base

_DECAYED = ".*(kernel|_embeddings)$"  # Neither biases nor layer norms.


def get_config(argument: str = "") -> ConfigDict:
    """`large` is the large model; `quick` runs on the built-in dataset."""
    return base.variant(experiment(), argument, large=use_large, quick=quick)


def experiment() -> ConfigDict:
    """VinVL base on COCO."""
    config = base.base("vinvl")
    config.total_steps, config.batch_size = "30 epochs", 128
    regions = {"name": "region_tokens", "features": 2054, "dropout": 0.1, "dtype": "bfloat16"}
    config.model = {
        "image": base.tower(regions, "none"),
        "text": base.tower({"name": "token_ids", "vocab_size": 30522}, "none"),
        "similarity": {"name": "dot"},
        # A BERT-Base over up to 70 words and tags, and the regions.
        "cross_encoder": {
            "name": "single_stream", "norm_first": False, "modalities": False, "epsilon": 1e-12,
            "positions": 512, "length": 70, "pooled_dropout": 0.1, "classes": 2,
            "score": "log_odds", "dtype": "bfloat16",
        },
    }  # fmt: skip
    config.data = base.dataset("region_features", "coco_vinvl")
    config.data.examples = "pairs"
    config.data.image = {"size": 0, "augment": None, "max_regions": 70, "tags": True}
    config.data.text.max_length = 70
    config.data.text_lengths = (24, 40)
    config.tasks.matching = base.task("image", "caption_0", "matching")
    config.tasks.matching.loss.options = {"negatives": "either"}
    config.init_from.published = ("image/", "cross_encoder/")
    rule: dict[str, Any] = {"b2": 0.999, "eps_before_correction": True}
    config.optimizer = base.adamw(2e-5, decay=0.05, clip_norm=1.0, **rule)
    config.optimizer.schedule = {"name": "linear", "warmup_steps": 0}
    config.optimizer.weight_decay.pattern = _DECAYED
    config.evals = {"coco": base.benchmarks("1 epochs", reranker={"name": "cross_encoder"})}
    config.checkpoint.every = "1 epochs"
    return config


def use_large(config: ConfigDict) -> ConfigDict:
    """The sizes and the rate of the large model."""
    config.model.image.encoder.width = 1024
    config.model.cross_encoder.update({"width": 1024, "depth": 24, "heads": 16, "mlp_dim": 4096})
    config.optimizer.learning_rate = 7.5e-6
    return config


def quick(config: ConfigDict) -> ConfigDict:
    """Two layers on the objects of the built-in dataset, without published weights."""
    config = base.on_built_in_dataset(config, steps=50)
    config.batch_size = 32
    config.model.image.encoder.update({"features": 28, "width": 64, "dtype": "float32"})
    config.model.text.encoder.vocab_size = 0
    sizes = {"width": 64, "depth": 2, "heads": 2, "mlp_dim": 128, "length": 40, "positions": 40}
    config.model.cross_encoder.update(sizes | {"dtype": "float32"})
    config.data.config = "regions"
    config.data.image.update({"size": 0, "max_regions": 4})
    config.data.text.max_length = 32
    config.data.text_lengths = ()
    config.evals.shapes.reranker = {"name": "cross_encoder"}
    return config
