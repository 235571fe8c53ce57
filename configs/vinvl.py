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

from ml_collections import ConfigDict

from configs import base, vilt


def get_config(argument: str = "") -> ConfigDict:
    """`large` is the large model; `quick` runs on the built-in dataset."""
    return base.variant(experiment(), argument, large=use_large, quick=quick)


def experiment() -> ConfigDict:
    """VinVL base on COCO."""
    # A BERT-Base over up to 70 words and tags, and the regions.
    config = vilt.single_stream(
        "vinvl", {"name": "region_tokens", "features": 2054}, norm_first=False, modalities=False,
        epsilon=1e-12, positions=512, length=70, pooled_dropout=0.1, score="log_odds",
    )  # fmt: skip
    config.total_steps, config.batch_size = "30 epochs", 128
    config.data = base.dataset("region_features", "coco_vinvl")
    config.data.examples = "pairs"
    config.data.image = {"size": 0, "augment": None, "max_regions": 70, "tags": True}
    config.data.text.max_length = 70
    config.data.text_lengths = (24, 40)
    config.tasks.matching = base.pair_task("matching")
    config.tasks.matching.loss.options = {"negatives": "either"}
    # Neither biases nor layer norms are decayed.
    config.optimizer = base.adamw(
        2e-5, 0.05, schedule="linear", decayed=".*(kernel|_embeddings)$", clip_norm=1.0,
        b2=0.999, eps_before_correction=True,
    )  # fmt: skip
    return config


def use_large(config: ConfigDict) -> ConfigDict:
    """The sizes and the rate of the large model."""
    config.model.image.encoder.width = 1024
    config.model.cross_encoder.update({"width": 1024, "depth": 24, "heads": 16, "mlp_dim": 4096})
    config.optimizer.learning_rate = 7.5e-6
    return config


def quick(config: ConfigDict) -> ConfigDict:
    """Two layers on the objects of the built-in dataset."""
    config = vilt.small(config, length=40, positions=40)
    config.model.image.encoder.features, config.data.config = 28, "regions"
    config.data.image.update({"size": 0, "max_regions": 4})
    config.data.text_lengths = ()
    return config
