"""Order embeddings as VSE++ trains them: Order++, and Order0.

    python -m xmodal.main --config=configs/order.py \\
        --config.init_from.towers.image=weights/resnet152
    python -m xmodal.main --config=configs/order.py:order0 ...

The score of an image x and a caption y is -|max(0, y - x)|. Order++ uses the hardest negatives and
a margin of 0.2. Order0 uses all negatives, absolute values after the L2 norm, a margin of 0.05 and
a learning rate of 0.001 (Vendrov et al., "Order-Embeddings of Images and Language", 2016).
Everything else is as in vsepp.py and fartashf/vsepp.
"""

from ml_collections import ConfigDict

from configs import base, itm, vsepp


def get_config(argument: str = "") -> ConfigDict:
    """Order++; `order0`; `quick` runs Order++ on the built-in dataset."""
    config = vsepp.get_config()
    config.name = "order"
    config.model.image.projection.normalize = True
    config.model.text.projection = {"normalize": True}
    config.model.similarity = {"name": "order"}
    return base.choose(config, argument, order0=order0, quick=vsepp.quick)


def order0(config: ConfigDict) -> ConfigDict:
    """All negatives, and vectors without negative values."""
    config.name = "order0"
    for modality in ("image", "text"):
        config.model[modality].projection.absolute = True
    config.tasks = {"i2t": itm.hinge("all", margin=0.05)}
    config.optimizer.learning_rate = 1e-3
    return config
