"""Numbers of parameters of the papers' models, from their definitions and other libraries."""

# Entries of the vocabularies that are learned from the data.
VOCABULARY = 300

# Parameters of EfficientNet-B4's features and their running statistics (keras.applications), and
# of BERT-Base (Uncased) without the pooler's 768 x 768 + 768 of its 109,482,240.
B4, B4_STATISTICS, BERT_BASE = 17_548_616, 125_200, 109_482_240 - 590_592
# torchvision's ResNets without the 1000 classes.
CLASSES = 2048 * 1000 + 1000
RESNET50, RESNET152 = 25_557_032 - CLASSES, 60_192_808 - CLASSES
# Inception v3's features (keras.applications), which have no scales.
INCEPTION, INCEPTION_STATISTICS = 21_768_352, 34_432


def gru(inputs, width):
    """Three gates, each with one bias for the inputs and one for the state."""
    return 3 * width * (inputs + width + 2)


def lstm(inputs, width):
    """Four gates with two biases each."""
    return 4 * width * (inputs + width + 2)


def attention_head(inputs, width, heads=1):
    """PIE without a summary: attention, the linear layer after it, and a layer norm."""
    attention = inputs * (inputs // 2) + inputs // 2 * heads
    return attention + inputs * width + width + 2 * width


def spread_head(inputs, width):
    """PCME's spread without a summary: like the mean, except for the layer norm."""
    return attention_head(inputs, width) - 2 * width


def linear(inputs, width):
    return inputs * width + width


def vit_layers(width, mlp_dim, depth):
    """Four products of attention, two of the feed-forward layer, and two layer norms."""
    return depth * (
        4 * linear(width, width) + linear(width, mlp_dim) + linear(mlp_dim, width) + 4 * width
    )


# BLIP's ViT-B/16 at 384 pixels, its BERT without types, and its blocks of cross-attention: with the
# row of [ENC], the projections, the scale and the matching layer, the published 223.7 million.
BLIP_VIT = linear(16 * 16 * 3, 768) + 578 * 768 + vit_layers(768, 3072, depth=12) + 2 * 768
BLIP_BERT = BERT_BASE - 2 * 768
BLIP_CROSS = 12 * (4 * linear(768, 768) + 2 * 768)

# With ViT-L/16, whose wider tokens the keys and values read.
BLIP_VIT_LARGE = (
    linear(16 * 16 * 3, 1024) + 578 * 1024 + vit_layers(1024, 4096, depth=24) + 2 * 1024
)
BLIP_CROSS_LARGE = 12 * (2 * linear(768, 768) + 2 * linear(1024, 768) + 2 * 768)

# ViLT-B/32, the published 111.6 million.
VILT_IMAGE = linear(32 * 32 * 3, 768) + 145 * 768 + 768
VILT_PAIRS = (30522 + 40 + 2 + 2) * 768 + vit_layers(768, 3072, depth=12) + 2 * (2 * 768)
VILT_PAIRS += linear(768, 768) + linear(768, 2)

# VinVL base: BERT-Base with its pooler.
VINVL_IMAGE = linear(2054, 768) + 2 * 768
VINVL_PAIRS = BERT_BASE + linear(768, 768) + linear(768, 2)

VSEPP = {
    "image/encoder": RESNET152,
    "image/projection": 2048 * 1024 + 1024,
    "text": VOCABULARY * 300 + gru(300, 1024),
}
# Weights of positions: a bidirectional GRU of 32 over codes of 32, and a score.
POSITIONS = 2 * gru(32, 32) + 32
# Config -> part of the parameters -> number of parameters.
PUBLISHED = {
    "blip": {
        "image/encoder": BLIP_VIT,
        "image/projection": linear(768, 256),
        "text/encoder": BLIP_BERT,
        "text/projection": linear(768, 256),
        "cross_encoder": BLIP_CROSS + 768 + linear(768, 2),
        "similarity": 1,
    },
    "blip:large": {
        "image/encoder": BLIP_VIT_LARGE,
        "image/projection": linear(1024, 256),
        "text/encoder": BLIP_BERT,
        "text/projection": linear(768, 256),
        "cross_encoder": BLIP_CROSS_LARGE + 768 + linear(768, 2),
        "similarity": 1,
    },
    "cc_pretrain": {"image": B4, "text/encoder": BERT_BASE},
    "cxc_image_text": {"image": B4, "text/encoder": BERT_BASE},
    "cxc_multitask": {"image": B4, "text/encoder": BERT_BASE},
    "cxc_text_text": {"text/encoder": BERT_BASE},
    "vsepp": VSEPP,
    "vse0": VSEPP,
    "order": VSEPP,
    "vse_infinity": {
        "image": 2048 * 1024
        + 1024  # the linear layer
        + 2048 * 512
        + 512
        + 2 * 512
        + 512 * 1024
        + 1024  # MLP and batch normalization
        + POSITIONS,
        "text/encoder": BERT_BASE,
        "text/head": 768 * 1024 + 1024 + POSITIONS,
    },
    "vsrn": {
        # A linear layer, four graph layers of four with a batch normalization, and a GRU.
        "image": (1 + 4 * 4) * (2048 * 2048 + 2048) + 4 * 2 * 2048 + gru(2048, 2048),
        "text": VOCABULARY * 300 + gru(300, 2048),
        "tasks/generation": 2048 * 512
        + 512
        + gru(512, 512)
        + VOCABULARY * 300
        + 2 * 512 * 512
        + 512
        + 512
        + gru(300 + 512, 512)
        + 512 * VOCABULARY
        + VOCABULARY,
    },
    "sgraf": {
        # Attention with the mean; the positions of the 36 regions have batch normalizations.
        "image/head": linear(2048, 1024) + 2 * linear(1024, 1024) + 1024 + 2 * 36 + 2 * 1024,
        "text/encoder": VOCABULARY * 300 + 2 * gru(300, 1024),
        "text/head": 2 * linear(1024, 1024) + 1024,
        # Two comparisons, gates, score; scale, bias, mean and variance of the gates.
        "similarity": 2 * linear(1024, 256) + 2 * linear(256, 1) + 4,
    },
    "scan": {
        "image/head": linear(2048, 1024),
        "text/encoder": VOCABULARY * 300 + 2 * gru(300, 1024),
    },
    "cvse": {
        # Attention as in SGRAF; two layers of the graph, which is counted on both sides.
        "image/head": linear(2048, 1024)
        + 4 * linear(1024, 1024)
        + 2 * 1024
        + 2 * 36
        + 3 * 2 * 1024
        + 300 * 512
        + 512 * 1024,
        "text/encoder": VOCABULARY * 300 + 2 * gru(300, 1024),
        "text/head": 4 * linear(1024, 1024) + 2 * 1024 + 2 * 2 * 1024 + 300 * 512 + 512 * 1024,
    },
    "vilt": {"image/encoder": VILT_IMAGE, "cross_encoder": VILT_PAIRS},
    "vinvl": {"image/encoder": VINVL_IMAGE, "cross_encoder": VINVL_PAIRS},
    "vit": {
        # 6 x 6 patches of 8 x 8 pixels and a class token; a layer norm at the end.
        "image/encoder": linear(8 * 8 * 3, 128)
        + (1 + 37) * 128
        + vit_layers(128, 256, depth=4)
        + 2 * 128,
        "image/projection": linear(128, 256),
    },
    "vete": {
        "image/encoder": INCEPTION,
        "image/projection": 2048 * 128,
        "text": VOCABULARY * 128,
    },
    "cmcm_clue": {
        "image/encoder": RESNET50,
        "image/projection": 2 * 2048 + 2048 * 1024 + 1024,
        "text/encoder": VOCABULARY * 300 + 2 * lstm(300, 300),
        "text/head": 600 * 600 + 600 + 600,
        "text/projection": 2 * 600 + 600 * 1024 + 1024,
        "tasks/relations": 2048 * 6 + 6,
    },
    "pcme": {
        "image/encoder": RESNET152,
        "image/head": attention_head(2048, 1024)
        + spread_head(2048, 1024)
        + 2 * (2048 * 1024 + 1024),
        "text/encoder/table": VOCABULARY * 300,
        "text/encoder/recurrent": 2 * gru(300, 512),
        "text/head": attention_head(300, 1024) + spread_head(300, 1024) + 2 * gru(300, 512),
        "similarity": 2,
    },
    "pvse": {
        "image/encoder": RESNET152,
        "image/head": attention_head(2048, 1024, heads=2) + 2048 * 1024 + 1024,
        "text/encoder/table": VOCABULARY * 300,
        "text/encoder/recurrent": 2 * gru(300, 512),
        "text/head": attention_head(300, 1024, heads=2),
    },
}
# Config -> the parts that are not trained.
FROZEN = {
    "blip": [],
    "cc_pretrain": ["text/encoder"],
    "cxc_image_text": ["text/encoder"],
    "cxc_multitask": ["text/encoder"],
    "cxc_text_text": ["text/encoder"],
    "vsepp": ["image/encoder"],
    "vse0": ["image/encoder"],
    "order": ["image/encoder"],
    "vse_infinity": [],
    "aoq": [],
    "vsrn": [],
    "sgraf": [],
    "cvse": [],
    "scan": [],
    "vilt": [],
    "vinvl": [],
    "vit": [],
    "vete": ["image/encoder"],
    "cmcm_clue": [],
    "pcme": ["image/encoder", "text/encoder/table"],
    "pvse": ["image/encoder", "text/encoder/table"],
}
PUBLISHED["aoq"] = PUBLISHED["vsrn"]
STATISTICS = {
    # Copies of the towers, and the queue of both sides with its images.
    "blip": BLIP_VIT + BLIP_BERT + 2 * linear(768, 256) + 57600 * (2 * 256 + 1),
    "cc_pretrain": B4_STATISTICS,
    "cxc_image_text": B4_STATISTICS,
    "cxc_multitask": B4_STATISTICS,
    "cxc_text_text": 0,
    "sgraf": 2 * 36 + 2 * 1024,
    "vit": 0,
    "vete": INCEPTION_STATISTICS,
}
