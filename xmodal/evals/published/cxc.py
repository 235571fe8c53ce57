"""Results on the labels of Crisscrossed Captions (MS-COCO 5K test split), as printed in papers.

Tables 2 to 5 of the Crisscrossed Captions paper, and the rows of the VSE-infinity paper.
"""

from collections.abc import Mapping

# Task -> numbers: R@1, R@5, R@10 and median rank, or mean and deviation of the bootstrap
# correlation. None where a paper prints a dash or nothing.
Row = Mapping[str, tuple[float | None, ...]]

# Board -> model -> row.
CXC_PAPER: dict[str, dict[str, Row]] = {
    "coco5k": {
        "VSE++": {"i2t": (41.3, 71.1, 81.2, 2), "t2i": (30.3, 59.4, 72.4, 4)},
        "VSRN (released)": {"i2t": (50.3, 79.6, 87.9, 1), "t2i": (37.9, 68.5, 79.4, 2)},
        "VSRN (its paper)": {"i2t": (53.0, 81.1, 89.4, None), "t2i": (40.5, 70.6, 81.1, None)},
        "DE_I2T": {"i2t": (52.0, 80.3, 89.5, 1), "t2i": (37.9, 67.6, 78.8, 2)},
        "DE_T2T+I2T": {"i2t": (54.1, 81.8, 89.9, 1), "t2i": (39.7, 70.0, 80.9, 2)},
    },
    "cxc": {
        "BoW GloVe": {"t2t": (21.2, 38.2, 47.4, 13), "sts": (55.1, 0.6)},
        "USE multilingual": {"t2t": (31.2, 51.5, 61.3, 5), "sts": (71.4, 0.4)},
        "InceptionV3": {"i2i": (4.1, 13.3, 19.1, 96), "sis": (19.6, 1.9)},
        "ResNet-152": {"i2i": (11.8, 35.5, 49.5, 11), "sis": (59.2, 1.3)},
        "SimCLRv2": {"i2i": (24.5, 54.9, 68.1, 4), "sis": (74.3, 0.9)},
        "VSE++": {
            "i2t": (43.1, 74.3, 84.2, 2),
            "t2i": (32.5, 62.7, 75.4, 3),
            "t2t": (38.7, 62.3, 72.2, 3),
            "i2i": (36.4, 70.4, 81.3, 2),
            "sts": (74.4, 0.4),
            "sis": (73.3, 0.9),
            "sits": (55.2, 1.5),
        },
        "VSRN (released)": {
            "i2t": (52.4, 81.9, 90.0, 1),
            "t2i": (40.1, 71.1, 81.5, 2),
            "t2t": (41.0, 64.8, 74.5, 2),
            "i2i": (44.2, 76.7, 86.2, 2),
            "sts": (73.0, 0.4),
            "sis": (70.1, 1.0),
            "sits": (60.4, 1.3),
        },
        "DE_T2T": {"t2t": (41.7, 64.4, 73.4, 2), "sts": (72.9, 0.4)},
        "DE_I2T": {
            "i2t": (53.9, 82.7, 91.2, 1),
            "t2i": (39.8, 70.2, 80.9, 2),
            "t2t": (26.0, 47.1, 57.5, 7),
            "i2i": (38.3, 74.1, 85.0, 2),
            "sts": (50.9, 0.6),
            "sis": (81.3, 0.7),
            "sits": (61.6, 1.4),
        },
        "DE_T2T+I2T": {
            "i2t": (55.9, 84.2, 91.8, 1),
            "t2i": (41.7, 72.3, 83.0, 2),
            "t2t": (42.4, 64.9, 74.0, 2),
            "i2i": (38.5, 73.6, 84.9, 2),
            "sts": (74.2, 0.4),
            "sis": (74.5, 0.9),
            "sits": (61.9, 1.3),
        },
    },
}

# Its authors print two recalls and no correlations.
VSE_INFINITY: dict[str, dict[str, Row]] = {
    "cxc": {
        "VSE-inf BUTD grid": {
            "i2t": (60.6, 87.4, None, None),
            "t2i": (46.2, 76.3, None, None),
            "t2t": (45.9, 68.7, None, None),
            "i2i": (44.4, 78.3, None, None),
        },
        "VSE-inf WSL grid": {
            "i2t": (67.9, 90.6, None, None),
            "t2i": (53.6, 81.1, None, None),
            "t2t": (46.7, 69.2, None, None),
            "i2i": (51.3, 83.2, None, None),
        },
    },
}
