"""VSRN: graph reasoning over regions, a GRU over the results, and caption generation.

    python -m xmodal.main --config=configs/vsrn.py --config.data.manual_dir=FOLDER
    python -m xmodal.eval_main --run=RUN_A,RUN_B

Li et al., "Visual Semantic Reasoning for Image-Text Matching" (2019), and KunpengLi1994/VSRN. As in
that code, each channel of the regions is divided by its norm over the 36 regions, and one padding
token after the end of a caption counts as a word to generate. Differences: that code lists the
parameters of the caption generator twice, so they count twice in clipping and are updated twice per
step; its vocabulary includes words of the test captions; and it selects the checkpoint by R@1 and
R@5 on 1,000 validation images every 500 steps. `itm.py` lists differences that all of these papers
share.

Paper, COCO test, R@1/5/10, the mean of two models' similarities:
    1K   I->T 76.2 94.8 98.2   T->I 62.8 89.7 95.1
    5K   I->T 53.0 81.1 89.4   T->I 40.5 70.6 81.1
One released model: 5K   I->T 50.3 79.6 87.9   T->I 37.9 68.5 79.4
"""

from ml_collections import ConfigDict

from configs import base, itm

WIDTH = 2048


def get_config(argument: str = "") -> ConfigDict:
    """`flickr30k` has the settings for that dataset; `quick` runs on the built-in dataset."""
    config = itm.use_regions(itm.experiment("vsrn"))
    head = {"name": "graph", "width": WIDTH, "layers": 4, "input_norm": "regions"}
    config.model.image = base.tower(itm.regions(), head)
    config.model.text = base.tower(itm.gru(WIDTH), "lasttoken")
    generation = base.pair_task(
        "caption_generation", negatives="none", inputs=("text_ids", "text_mask"),
        module={"vocab_size": 0, "width": 512, "word_width": 300},
    )  # fmt: skip
    config.tasks = {"i2t": itm.hinge(), "generation": generation}
    config.optimizer = itm.clipped_adam(2e-4, "15 epochs")
    return base.variant(config, argument, flickr30k=flickr30k, quick=quick)


def flickr30k(config: ConfigDict) -> ConfigDict:
    """No norm before the graph, batch normalization after the GRU, and an earlier decay."""
    config = itm.use_flickr30k(config, "10 epochs")
    config.model.image.head.input_norm = "none"
    config.model.image.projection = {"batch_norm": True}
    return config


def quick(config: ConfigDict) -> ConfigDict:
    """Stored cells of a small random CNN instead of regions, and small recurrent layers."""
    config = itm.quick(config, words=32, width=64, head=64)
    config.model.image.head.layers = 2
    config.tasks.generation.loss.module.update({"width": 32, "word_width": 32})
    return config
