"""ViLT: one transformer over words and patches, which scores every pair; there are no embeddings.

    python -m xmodal convert --model=vilt --source=vilt_200k_mlm_itm.ckpt --vocabulary=VOCAB \\
        --output=weights/vilt
    python -m xmodal.main --config=configs/vilt.py --config.init_from.model=weights/vilt \\
        --config.data.manual_dir=COCO

VOCAB is the `vocab.txt` of bert-base-uncased. Evaluate a retrieval checkpoint as it is with
`released.py:vilt`.

Kim et al., "ViLT: Vision-and-Language Transformer Without Convolution or Region Supervision"
(2021), and dandelin/ViLT, vilt/config.py (task_finetune_irtr_coco): pictures of any shape whose
shorter side has 384 pixels, and the cross-entropy of an image's caption among 15 random ones.
Differences from that code: these are captions of other images of the batch, not of the whole
dataset; RandAugment is left out; the two-class head of a pretrained checkpoint is trained further,
where that code trains a copy of its second class. All pairs are scored in float32, without the
ties of that code's float16.

The paper, COCO 5K, R@1/5/10:
    I->T 61.5 86.3 92.7   T->I 42.7 72.9 83.1
"""

from typing import Any

from ml_collections import ConfigDict

from configs import base


def get_config(argument: str = "") -> ConfigDict:
    """`quick` runs on the built-in dataset."""
    return base.variant(experiment(), argument, quick=quick)


def single_stream(name: str, encoder: dict, **options: Any) -> ConfigDict:
    """One transformer over words and the tokens of a tower, without data, tasks and optimizer."""
    config = base.base(name)
    config.model = {
        "image": base.tower(encoder | {"dropout": 0.1, "dtype": "bfloat16"}, "none"),
        "text": base.tower({"name": "token_ids", "vocab_size": 30522}, "none"),
        "similarity": {"name": "dot"},
        "cross_encoder": {"name": "single_stream", "classes": 2, "dtype": "bfloat16", **options},
    }
    config.init_from.published = ("image/", "cross_encoder/")
    config.evals = {"coco": base.benchmarks("1 epochs", reranker={"name": "cross_encoder"})}
    config.checkpoint.every = "1 epochs"
    return config


def experiment() -> ConfigDict:
    """ViLT-B/32 on COCO."""
    patches = {"name": "patch_tokens", "patch": 32, "grid": 12, "normalization": "inception"}
    # 12 layers of width 768 over up to 40 words and the patches.
    config = single_stream("vilt", patches)
    config.total_steps, config.batch_size = "10 epochs", 256
    config.data = base.dataset("coco_captions")
    config.data.examples = "pairs"
    config.data.image = {"size": 384, "augment": None, "patch": 32}
    config.data.text.max_length = 40
    config.tasks.ranking = base.pair_task("pair_softmax")
    config.tasks.ranking.loss.options = {"negatives": 15}
    # Neither biases nor layer norms are decayed.
    config.optimizer = base.adamw(
        1e-4, 0.01, "1 epochs", schedule="linear", decayed=".*(kernel|_embeddings|class_token)$",
        b2=0.98, eps_before_correction=True,
    )  # fmt: skip
    return config


def small(config: ConfigDict, **sizes: int) -> ConfigDict:
    """Two layers on the built-in dataset, without published weights."""
    config = base.on_built_in_dataset(config, steps=50)
    config.batch_size, config.data.text.max_length = 32, 32
    config.model.image.encoder.update({"width": 64, "dtype": "float32"})
    config.model.text.encoder.vocab_size = 0
    layers = {"width": 64, "depth": 2, "heads": 2, "mlp_dim": 128, "dtype": "float32"}
    config.model.cross_encoder.update(layers | sizes)
    config.evals.shapes.reranker = {"name": "cross_encoder"}
    return config


def quick(config: ConfigDict) -> ConfigDict:
    """Nine patches, and three negatives."""
    config = small(config, positions=32)
    config.model.image.encoder.update({"patch": 16, "grid": 3})
    config.data.image.update({"size": 48, "patch": 16})
    config.tasks.ranking.loss.options.negatives = 3
    config.optimizer.schedule.warmup_steps = "up to 10"
    return config
