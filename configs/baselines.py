"""The unimodal baselines of the Crisscrossed Captions paper: published towers, no training.

    python -m xmodal convert --tower=words --source=glove.840B.300d.txt \\
        --output=glove
    python -m xmodal.eval_main --config=configs/baselines.py:bow \\
        --config.init_from.towers.text=glove --config.data.manual_dir=DIR \\
        --config.data.ratings_dir=DIR --split=test --output=OUT

    python -m xmodal.eval_main --config=configs/baselines.py:use \\
        --text=savedmodel:universal-sentence-encoder-multilingual-large_3 \\
        --config.data.manual_dir=DIR --config.data.ratings_dir=DIR --output=OUT

bow                GloVe 840B 300d (cased; the paper names no file), mean over the words of a
                   caption, with Penn Treebank tokens, looked up as written, then in lower case;
                   unknown words are skipped
use                any SavedModel that embeds texts (--text=savedmodel:FOLDER), such as the paper's
                   multilingual USE, ranked by inner products, as its documentation does
sentence_encoder   any BERT in Hugging Face's format (sentence-transformers folders with mean or
                   [CLS] pooling)
inception_v3       TF-Hub imagenet/inception_v3/feature_vector/4: 299 pixels in [-1, 1]
resnet152          TF-Hub imagenet/resnet_v1_152/feature_vector/4: TF-slim's v1, 224 pixels in
                   [-1, 1], as its card says ("Inception-style" preprocessing)
resnet152_slim     TF-slim's checkpoint of 2016 of the same network, which is Caffe's: 224 pixels
                   minus ImageNet's mean ("vgg"); another network than the paper's. Keras' and
                   torchvision's ResNet-152 are others again: for them, set
                   --config.model.image.encoder.variant=keras (or torchvision) and another name
simclr             SimCLRv2 r50_1x_sk0, fine-tuned on all labels of ImageNet: 224 pixels in [0, 1]

Inception V3 and the ResNets use the central 0.875 of each side, resized to a square by bilinear
interpolation. The paper says 87.5 % of the area (0.9354 of a side:
--config.data.image.eval_crop); the operation that its authors use elsewhere takes this fraction of
each side. SimCLR uses a square of 0.875 of the shorter side, bicubic, as in its own evaluation. The
encoder normalizes pixels. The paper does not say how items are ranked; cosine is used here for all
but USE, as in its figures. The paper has USE's version 1, whose operations, those of the package
tf_sentencepiece, TensorFlow no longer has; version 3 uses TensorFlow Text.

The paper on CxC, COCO 5k test: R@1/5/10, median rank; Spearman:
  bow           T->T 21.2 38.2 47.4, 13   STS 55.1 +-0.6
  USE           T->T 31.2 51.5 61.3, 5    STS 71.4 +-0.4
  inception_v3  I->I  4.1 13.3 19.1, 96   SIS 19.6 +-1.9 (so low that an error there is likely)
  resnet152     I->I 11.8 35.5 49.5, 11   SIS 59.2 +-1.3
  simclr        I->I 24.5 54.9 68.1, 4    SIS 74.3 +-0.9
"""

from ml_collections import ConfigDict

from configs import base, cxc

# `use` has no encoder: --text reads strings.
TEXT = {"bow": {"name": "words", "vocab_size": 0}, "sentence_encoder": {"name": "bert"}, "use": {}}
# The encoder, the size of pictures and their crop.
IMAGE: dict[str, tuple[dict, int, str]] = {
    "inception_v3": ({"name": "inception_v3"}, 299, "cxc"),
    "resnet152": (cxc.RESNET152, 224, "cxc"),
    "resnet152_slim": (cxc.RESNET152 | {"normalization": "vgg"}, 224, "cxc"),
    "simclr": ({"name": "resnet", "depth": 50, "variant": "simclr"}, 224, "simclr"),
}
NAMES = (*TEXT, *IMAGE)


def get_config(argument: str = "") -> ConfigDict:
    """Takes the name of the baseline."""
    if argument not in NAMES:
        raise ValueError(f"Unknown baseline {argument!r} of baselines.py; known: {NAMES}.")
    config = base.base(argument)
    config.data = cxc.coco()
    config.evals = {"coco": base.benchmarks(batch_size=128)}
    if argument in IMAGE:
        encoder, size, recipe = IMAGE[argument]
        config.model.image = base.tower(encoder)
        config.data.image = base.pixels(size, crop=0.875, recipe=recipe)
        config.data.text = None
    else:
        use_text_tower(argument, 64, config)  # Longer than any COCO caption.
        config.data.image, config.data.config = None, "captions"
    return config


def use_text_tower(name: str, max_length: int, config: ConfigDict) -> ConfigDict:
    """Adds a published text tower, whose other options and pooling come from its folder."""
    if name == "use":
        config.model.similarity = {"name": "dot"}
        return config
    config.model.text = {"encoder": TEXT[name], "head": None, "projection": None}
    tokenizer = "words" if name == "bow" else "wordpiece"
    config.data.text.update({"tokenizer": tokenizer, "max_length": max_length})
    return config
