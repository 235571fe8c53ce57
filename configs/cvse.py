"""CVSE: each item's vector is fused with one made of 300 concepts that all items share.

    python -m data_prep.concepts --dataset=region_features --config=coco --output=concepts.json
    python -m xmodal.main --config=configs/cvse.py --config.data.manual_dir=FOLDER \\
        --config.init_from.concepts=concepts.json \\
        --config.init_from.word_vectors.file=glove.840B.300d.txt

Wang et al., "Consensus-Aware Visual-Semantic Embedding for Image-Text Matching" (ECCV 2020), and
BruceW91/CVSE. In training, the concepts of a text are those of all captions of its image, as in
that code; in evaluation only those of its own words. The authors add those of similar captions of
the test set: `--config.evals.coco.concepts=completed`.

Differences from that code: texts are read as they are, not as the bytes `b'...'`, of which the
first word is unknown; the vocabulary omits words of validation captions; a word names a concept
if the vocabulary has it; after 15 epochs, the rate of the concepts' graph falls to a tenth like all
others, theirs to a fifth; the best checkpoint is selected by mean R@10 on all validation images,
theirs by the sum of recalls on 1,000. `itm.py` lists differences that all of these papers share.

README of the authors' code, completed concepts, R@1/5/10:
    COCO 1K     I->T 74.8 95.1 98.3   T->I 59.9 89.4 95.2
    Flickr30k   I->T 73.5 92.1 95.8   T->I 52.9 80.4 87.8
VSE-infinity's authors, without labels of other captions:
    COCO 1K     I->T 69.2 93.3 97.5   T->I 55.7 86.9 93.8
"""

from ml_collections import ConfigDict

from configs import base, itm


def get_config(argument: str = "") -> ConfigDict:
    """`flickr30k` has the settings for that dataset; `quick` runs on the built-in dataset."""
    config = itm.use_regions(itm.experiment("cvse"))
    # 300 concepts of width 300, the graph's width 512, fusion 0.85, and 0.9 in evaluation.
    image = {"name": "consensus", "width": itm.DIMENSION, "batch_norm": True}
    text = {"name": "consensus", "unit_query": True, "vocab_size": 0, "label_share": 0.4}
    words = itm.averaged_gru(dropout=0.4, init="normal", init_scale=1.0)
    config.model.image = base.tower(itm.regions(), image)
    config.model.text = base.tower(words, text)
    config.model.similarity = {"name": "dot"}
    config.model.shared = ("head/graph",)
    config.init_from.published = ("text/encoder/table",)
    # COCO's images have up to seven captions.
    config.data.label_captions = 7
    for field, weight in {"fused": 3.0, "instance": 5.0, "consensus": 1.0}.items():
        similarity = {"name": "dot", "field": field}
        config.tasks[field] = itm.hinge() | {"weight": weight, "similarity": similarity}
    config.tasks.concepts = base.pair_task("concept_divergence", weight=2.0, negatives="none")
    config.optimizer = itm.clipped_adam(2e-4, "15 epochs")
    return base.variant(config, argument, flickr30k=flickr30k, quick=quick)


def flickr30k(config: ConfigDict) -> ConfigDict:
    """Fewer labels, a longer training, and the same fusion in training and evaluation."""
    config = itm.use_flickr30k(config, "25 epochs")
    config.total_steps, config.data.label_captions = "50 epochs", 5
    config.model.text.head.label_share = 0.35
    for modality in ("image", "text"):
        config.model[modality].head.eval_fusion = 0.85
    return config


def quick(config: ConfigDict) -> ConfigDict:
    """Stored cells of a small random CNN instead of regions, and 32 words of captions as they are.

    A concept is then one form of a word, since no lemmas are looked up.
    """
    config = itm.quick(config, words=32, width=32, head=32)
    for modality in ("image", "text"):
        config.model[modality].head.update({"concepts": 32, "concept_width": 16, "graph_width": 16})
    config.data.label_captions = 5
    return config
