"""BLIP: a dual encoder whose text layers also attend to the image and rank its best pairs again.

    python -m xmodal convert --model=blip --source=model_base.pth --vocabulary=VOCAB \\
        --output=weights/blip
    python -m xmodal.main --config=configs/blip.py --config.init_from.model=weights/blip \\
        --config.data.manual_dir=COCO

VOCAB is the `vocab.txt` of bert-base-uncased. `large` has ViT-L/16 and starts from
model_large.pth. Evaluate a retrieval checkpoint as it is with `released.py:blip`. For pictures and
captions of your own, add `--config.data.dataset=captioned_images --config.best_checkpoint.metric=`.

Li et al., "BLIP: Bootstrapping Language-Image Pre-training for Unified Vision-Language
Understanding and Generation" (2022), and salesforce/BLIP, configs/retrieval_coco.yaml: ViT-B/16,
the BERT of its text tower, a contrastive loss with momentum copies of the towers, and a matching
loss with negatives drawn by the similarities over the global batch. Differences from that code:
RandAugment is left out; the temperature, which starts at that of the checkpoint, is not limited to
0.5; the momentum copies start at the towers and the queue at random, not at those of the
checkpoint.

The paper's numbers are in `results/blip.toml`, not yet checked in the paper itself.

`flickr8k` trains a small model from random weights for two epochs, on 25 stored cells of
MobileNetV2 per picture (440 MB), and evaluates its towers alone, their best 10 and 50 pairs ranked
again, and all pairs. DIR contains Flickr8k's captions, splits, ratings and pictures.

    python -m xmodal convert --tower=mobilenet_v2 --source=FILE --output=weights/mobilenet_v2
    python -m xmodal.main --config=configs/blip.py:flickr8k --config.data.manual_dir=DIR \\
        --config.seed=0 --workdir=RUN
    python -m xmodal compare top10=RUN/test/top10 towers=RUN/test/flickr8k

Two of its settings are not BLIP's. Layers this narrow start from values that follow their width
(`layer_init`): with BERT's 0.02, the scores hardly depend on the pair. And the matching head learns
the odds that remain after its negatives are drawn in proportion to exp(cosine / t): to rank, they
need cosine / t added. The evaluators `*_blip` add the cosine once, as BLIP does. Results:
configs/results.md.
"""

from ml_collections import ConfigDict

from configs import base, flickr8k_itm, itm, quickstart

TEMPERATURE = 0.07


def get_config(argument: str = "") -> ConfigDict:
    """`large` has ViT-L/16; `quick` is on the built-in dataset, `flickr8k` on Flickr8k."""
    return base.variant(experiment(), argument, large=use_large, quick=quick, flickr8k=flickr8k)


def experiment() -> ConfigDict:
    """ViT-B/16 at 384 pixels and BERT-Base on COCO."""
    config = base.base("blip")
    config.total_steps, config.batch_size = "6 epochs", 256
    vit = {"name": "vit", "normalization": "clip", "remat": True, "dtype": "bfloat16"}
    bert = base.bert(types=0, dropout=0.1, dtype="bfloat16")
    config.model = {
        "image": base.tower(vit, "cls", width=256),
        "text": base.tower(bert, "cls", width=256),
        "similarity": base.learned_cosine(TEMPERATURE, max_logit_scale=1000.0),
        "cross_encoder": {"name": "cross_attention", "score": "logit"},
    }
    config.data = base.dataset("coco_captions")
    config.data.examples = "pairs"
    crops = itm.RESIZED_CROP | {"area": (0.5, 1.0), "filter": "bicubic"}
    config.data.image = base.pixels(384, crops, recipe="squash")
    config.data.text.update({"max_length": 35, "separators": '.!"()*#:;~', "max_words": 30})
    config.tasks = _tasks(57600)
    config.init_from.published = ("image/", "text/", "cross_encoder/")
    config.optimizer = base.adamw(1e-5, decay=0.05)
    config.optimizer.schedule.every = "1 epochs"
    reranker = {"name": "cross_encoder", "top": 256, "first_stage_weight": 1.0}
    config.evals = {"coco": base.benchmarks("1 epochs", reranker=reranker)}
    config.best_checkpoint.metric = "coco/coco5k/rsum"
    config.checkpoint.every = "1 epochs"
    return config


def use_large(config: ConfigDict) -> ConfigDict:
    """ViT-L/16 with stochastic depth, and the batch and the rate of the large model."""
    sizes = {"width": 1024, "depth": 24, "heads": 16, "mlp_dim": 4096}
    config.model.image.encoder.update(sizes | {"drop_path": 0.1})
    config.batch_size, config.optimizer.learning_rate = 128, 5e-6
    return config


def _tasks(queue: int, rate: float = 0.995) -> dict:
    # The weight of the copies' softmax in the targets rises during the first epoch.
    soft = {"schedule": "linear", "from": 0.0, "to": 0.4, "start": 0, "end": "1 epochs"}
    module = {"size": queue, "rate": rate}
    contrastive = base.pair_task("momentum_softmax", inputs=("image_id",), module=module, soft=soft)
    return {"i2t": contrastive, "matching": base.pair_task("matching")}


def quick(_: ConfigDict) -> ConfigDict:
    """Two layers on each side, on the built-in dataset, without published weights."""
    config = quickstart.matching_quick(quickstart.multitask())
    config.model.cross_encoder = {"name": "cross_attention", "score": "logit"}
    sizes = {"width": 64, "depth": 2, "heads": 2, "mlp_dim": 128}
    config.model.image.encoder = {"name": "vit", "patch": 8, **sizes}
    config.model.text.encoder.update(sizes)
    config.model.image.head = config.model.text.head = {"name": "cls"}
    config.tasks = _tasks(256)
    config.model.similarity = base.learned_cosine(TEMPERATURE)
    config.evals.reranked.reranker.first_stage_weight = 1.0
    return config


def flickr8k(_: ConfigDict) -> ConfigDict:
    """One layer of text that also attends to 25 cells of MobileNetV2, and rerankings."""
    config = base.base("blip_flickr8k")
    config.total_steps, config.batch_size, config.log_every = "2 epochs", 128, 39
    sizes = {"width": 128, "depth": 1, "heads": 4, "mlp_dim": 256, "max_positions": 32}
    bert = base.bert(vocab_size=0, types=0, dropout=0.1, layer_init="siglip", **sizes)
    config.model = {
        "image": base.tower({}, width=256),
        "text": base.tower(bert, width=256),
        "similarity": {"name": "cosine", "temperature": TEMPERATURE},
        "cross_encoder": {"name": "cross_attention", "score": "log_odds"},
    }
    config.data = base.dataset("flickr8k")
    config.data.examples = "pairs"
    config.data.text = base.wordpiece(vocabulary_size=5000, max_length=16)
    flickr8k_itm.use_cells(config)
    config.data.image.size = 160
    config.tasks = _tasks(1024, rate=0.99)
    config.optimizer = base.adamw(1.5e-3, decay=0.05, warmup=40, clip_norm=1.0)
    # No checkpoint is selected by it.
    towers = base.benchmarks(every=0, split="validation[:5%]", batch_size=32)
    config.evals = {"flickr8k": towers}
    for name, top in (("top10", 10), ("top50", 50), ("all", None)):
        for suffix, weight in (("", 1 / TEMPERATURE), ("_blip", 1.0)):
            reranker = {"name": "cross_encoder", "top": top, "first_stage_weight": weight}
            config.evals[name + suffix] = towers | {"reranker": reranker}
    config.best_checkpoint.update({"metric": "flickr8k/mean_recall@10", "mode": "last"})
    config.checkpoint.every = 0
    return config
