"""A bag of words over captions, whose runs compile in a second, and a search space for it."""

from configs import base

SPACE = {
    "optimizer.learning_rate": ("log", 1e-3, 1e-1),
    "model.text.encoder.width": ("choice", 8, 16),
}
SELECT = "shapes/mean_recall@10"


def make_config(data_dir):
    config = base.base("bag")
    config.total_steps, config.batch_size, config.log_every = 4, 16, 2
    config.model.text = {
        "encoder": {"name": "words", "vocab_size": 0, "width": 8},
        "head": {"name": "mean"},
        "projection": None,
    }
    config.tasks = {"t2t": base.task("caption_0", "caption_1", "softmax")}
    config.data = base.dataset("crisscrossed_shapes")
    config.data.data_dir, config.data.image, config.data.captions_per_image = data_dir, None, 2
    config.data.text = base.words("ptb", min_count=1, max_length=16)
    config.optimizer = base.adam(1e-2)
    config.evals = {
        "shapes": base.benchmarks(every=2) | {"batch_size": 64, "bootstrap_samples": 10}
    }
    config.best_checkpoint.metric = SELECT
    config.checkpoint.every = 2
    return config
