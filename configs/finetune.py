"""Any published image tower and any published text tower, fine-tuned on captioned images.

    python -m xmodal convert --tower=mobilenet_v2 --source=FILE \\
        --output=weights/mobilenet_v2
    python -m xmodal convert --tower=bert --source=FOLDER --output=weights/minilm
    python -m xmodal.main --config=configs/finetune.py --config.data.manual_dir=DIR \\
        --config.init_from.towers.image=weights/mobilenet_v2 \\
        --config.init_from.towers.text=weights/minilm

The towers provide their encoders and heads, the size and scaling of pixels, and the tokenizer with
its vocabulary; the projections start at random. Both towers train at a tenth of the projections'
learning rate. No results have been measured with these settings.
"""

from ml_collections import ConfigDict

from configs import base, cxc


def get_config() -> ConfigDict:
    """Leaves everything that depends on the towers unset."""
    config = base.base("finetune")
    config.total_steps, config.batch_size = "10 epochs", 64
    for modality in ("image", "text"):
        config.model[modality] = base.tower({"name": ""}, None, width=512)
    config.model.similarity = base.learned_cosine(0.07)
    config.data = base.dataset("flickr8k")
    config.data.captions_per_image = 2
    config.data.image = base.pixels(0, cxc.crops(), crop=0.875)
    config.data.text = base.any_text()
    config.tasks = {"i2t": cxc.image_text(), "t2t": cxc.text_text()}
    config.init_from.published = ("image/encoder/", "text/encoder/")
    config.optimizer = base.adamw(1e-3, decay=0.01, warmup="up to 0.5 epochs", clip_norm=1.0)
    config.optimizer.groups.towers = {"pattern": "(image|text)/encoder/", "rate": 0.1}
    config.evals = {"captions": base.benchmarks(every="1 epochs")}
    config.checkpoint.every = "1 epochs"
    return config
