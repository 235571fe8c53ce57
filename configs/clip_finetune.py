"""A published CLIP or SigLIP, trained on with the pairs of a dataset.

    python -m xmodal convert --model=clip --source=ViT-B-32.pt --output=weights/clip
    python -m xmodal.main --config=configs/clip_finetune.py:i2t \\
        --config.init_from.model=weights/clip --config.data.manual_dir=COCO
    python -m xmodal.main --config=configs/clip_finetune.py:i2t \\
        --config.init_from.model=weights/clip --config.data.dataset=captioned_images \\
        --config.data.manual_dir=FOLDER --config.batch_size=auto

The last command trains on your own pictures, which may be fewer than a batch of COCO, 256. The
folder of the weights brings the model, its tokenizer and its crop. `i2t`, the default, trains on
images and captions, `t2t` on pairs of captions of one image, `multitask` on both, like Crisscrossed
Captions; `locked` keeps the image tower as it is (LiT), and so does `t2t`; `sigmoid` has
SigLIP's loss, for a CLIP with a learned bias that starts at 0. `,quick` after a variant trains
small random towers on the built-in dataset.

Rates fall by 0.7 from layer to layer, the image tower has a tenth of the text tower's rate
and starts after the first epoch, as in the configs of PCME++ (naver-ai/pcmepp, which has 0.01, 0.1
and new heads); AdamW's 1e-5 is the upper end of what keeps open_clip's ViT-B/32 from forgetting,
and decays neither norms, biases nor the scale. A ResNet has no stacked layers:
`--config.optimizer.groups.image.layer_decay=1`. The scale of a SigLIP may exceed 100, which all but
`sigmoid` forbid: `--config.model.similarity.max_logit_scale=None`. No results have been
measured with these settings. WiSE-FT averages the start and the end:

    python -m xmodal.eval_main --run=runs/clip_finetune_i2t --interpolate=0,0.25,0.5,0.75,1

Zhai et al., "LiT: Zero-Shot Transfer with Locked-image text Tuning" (2022); Wortsman et al.,
"Robust fine-tuning of zero-shot models" (2022).
"""

from ml_collections import ConfigDict

from configs import base, clip, cxc


def get_config(argument: str = "") -> ConfigDict:
    """`i2t`, `t2t`, `multitask`, `locked` or `sigmoid`; `,quick` after it is small."""
    return base.variant(
        experiment(), "i2t,quick" if argument == "quick" else argument,
        i2t=lambda config: config, t2t=t2t, multitask=multitask, locked=lock, sigmoid=sigmoid,
        quick=quick,
    )  # fmt: skip


def experiment() -> ConfigDict:
    """Images against captions, without a model."""
    config = base.base("clip_finetune")
    config.total_steps, config.batch_size = "5 epochs", 256
    config.model.similarity = clip.learned_scale()
    config.tasks = {"i2t": cxc.image_text()}
    config.data = base.dataset("coco_captions")
    config.data.image = base.pixels(0, clip.crops())
    config.optimizer = clip.adamw(1e-5, decay=0.1, clip_norm=1.0, b2=0.98, eps=1e-6)
    config.optimizer.schedule.warmup_steps = "up to 0.5 epochs"
    image = {"pattern": "image/", "rate": 0.1, "layer_decay": 0.7, "frozen_until": "1 epochs"}
    text = {"pattern": "text/", "layer_decay": 0.7}
    config.optimizer.groups = {"image": image, "text": text}
    config.evals = {"benchmarks": base.benchmarks(every="1 epochs", batch_size=128)}
    config.checkpoint.every = "1 epochs"
    return config


def multitask(config: ConfigDict) -> ConfigDict:
    """Images against captions, and captions against captions."""
    config.data.captions_per_image = 2
    config.tasks = {"i2t": cxc.image_text(), "t2t": cxc.text_text()}
    return config


def t2t(config: ConfigDict) -> ConfigDict:
    """Captions against captions; images keep their embeddings."""
    config = multitask(lock(config))
    del config.tasks.i2t
    return config


def lock(config: ConfigDict) -> ConfigDict:
    """Captions learn to fit images, which keep their embeddings."""
    config.freeze, config.data.image.augment = ("image/",), None
    del config.optimizer.groups.image
    return config


def sigmoid(config: ConfigDict) -> ConfigDict:
    """Every pair of the batch is classified by itself."""
    config.tasks = {"i2t": base.pair_task("sigmoid", engine="dense")}
    similarity = config.model.similarity
    similarity.update({"max_logit_scale": None, "bias": 0.0, "learned_bias": True})
    return config


def quick(config: ConfigDict) -> ConfigDict:
    """The recipe for two random towers, on the built-in dataset."""
    small = clip.get_config("quick")
    config = base.on_built_in_dataset(config, steps=50)
    config.model.image, config.model.text = small.model.image, small.model.text
    config.data.image.size, config.data.text = small.data.image.size, small.data.text
    config.log_every, config.optimizer.schedule.warmup_steps = 10, "up to 10"
    if "image" in config.optimizer.groups:
        config.optimizer.groups.image.frozen_until = 2
    return config
