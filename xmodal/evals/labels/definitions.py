"""Benchmarks of every dataset, as data: their positives and their metrics."""

import dataclasses
from collections.abc import Mapping

from data_prep.cxc.cxc_files import THRESHOLDS

# Direction -> (query modality, gallery modality).
DIRECTIONS = {
    "i2t": ("image", "text"),
    "t2i": ("text", "image"),
    "t2t": ("text", "text"),
    "i2i": ("image", "image"),
}
# Modality -> the kind of its items, as in names of columns and in messages.
KINDS = {"image": "image", "text": "caption"}
# Rating -> its two modalities and the modalities that are queries of the bootstrap. Queries of
# caption-image ratings are the images, which reproduces the published deviations.
RATING_SIDES = {
    "sts": ("text", "text", ("left", "right")),
    "sis": ("image", "image", ("left", "right")),
    "sits": ("text", "image", ("right",)),
    "expert": ("text", "image", ("right",)),
    "crowd": ("text", "image", ("right",)),
}
# Labels -> the released files that hold them.
RELEASED_FILES = {
    "sts": "sts_val.csv or sts_test.csv",
    "sis": "sis_val.csv or sis_test.csv",
    "sits": "sits_val.csv or sits_test.csv",
    "eccv": "eccv_image_to_caption.json and eccv_caption_to_image.json",
    "categories": "instances_val2014.json or val2014_categories.npz",
    "folds": "coco_test_ids.npy",
    "shortlist": "test_img_keys_1k.tsv",
    "matches": "the config matches of the dataset",
}
# Public datasets, whose published protocols define the positives. In all other datasets, captions
# of equal texts are one text, and all of its images are positives.
PUBLIC = frozenset(
    ("cite", "clue", "coco_captions", "conceptual_captions", "crisscrossed_shapes", "flickr30k")
    + ("flickr8k", "pinterest", "region_features", "sbu")
)
_RECALLS = ("recall@1", "recall@5", "recall@10")


@dataclasses.dataclass(frozen=True)
class Definition:
    """The rule that makes a benchmark of the labels of a dataset.

    Positives come from one of three sources: a released list, plausible matches (`zetas`), or the
    dataset's own pairs together with well rated ones.

    Attributes:
      name: prefix of all its metrics.
      sentence: description of the positives, for reports.
      directions: directions to evaluate; a direction without any positive is left out.
      metrics: names, see `xmodal.evals.labels.types.DirectionLabels`.
      own: whether a caption and its image, and captions of one image, are positives.
      thresholds: rating -> lowest score of a positive; own pairs are positive whatever their
        rating.
      correlations: ratings whose scores are compared with the model's.
      released: name of a released list of positives; if the labels have it, nothing else counts.
      unreachable: positives of the released list that are known to be outside the split.
      zetas: largest Hamming distance between the category vectors of two images that match; the
        own pair is included. Metrics are averaged over several.
      labeled_gallery: whether items without a category are removed from the galleries.
      folded: whether a query is compared only with the items of its fold of 1,000 images.
      shortlisted: whether there are only the images on VinVL's list, and their captions.
      cap: largest R of a query.
      variant: whether the benchmark is computed only if it is named.
    """

    name: str
    sentence: str
    directions: tuple[str, ...] = tuple(DIRECTIONS)
    metrics: tuple[str, ...] = (*_RECALLS, "median_rank")
    own: bool = True
    thresholds: Mapping[str, float] = dataclasses.field(default_factory=dict)
    correlations: tuple[str, ...] = ()
    released: str = ""
    unreachable: int = 0
    zetas: tuple[int, ...] = ()
    labeled_gallery: bool = False
    folded: bool = False
    shortlisted: bool = False
    cap: int | None = None
    variant: bool = False


_INTERMODAL = ("i2t", "t2i")
_CXC_RATINGS = ("sts", "sis", "sits")
_MERGED = (
    "own pairs, co-captions, and pairs rated at least 3 (STS, SITS) or 2.5 (SIS); SIS positives "
    "in either order of the pair"
)

DEFINITIONS: dict[str, tuple[Definition, ...]] = {
    "coco_captions": (
        Definition("coco5k", "A caption and its own image, and captions of one image."),
        Definition(
            "coco1k",
            "A caption and its own image, in five folds of 1,000 images in Karpathy's order.",
            directions=_INTERMODAL,
            metrics=_RECALLS,
            folded=True,
        ),
        Definition(
            "cxc",
            f"Crisscrossed Captions, union labels: {_MERGED}.",
            thresholds=THRESHOLDS,
            correlations=_CXC_RATINGS,
        ),
        # The labels that the eccv_caption library calls CxC. Its JSON files and the ratings
        # agree.
        Definition(
            "cxc_sits_only",
            "Caption and image rated at least 3 (SITS); an own pair rated lower is not a positive.",
            directions=_INTERMODAL,
            own=False,
            thresholds={"sits": THRESHOLDS["sits"]},
            released="cxc",
        ),
        # Captions 144675 and 467259 are positives of test images but not of the 25,000 test
        # captions; the published numbers count them.
        Definition(
            "eccv",
            "ECCV Caption: pairs that people verified, on the released queries.",
            directions=_INTERMODAL,
            metrics=("map@r", "r_precision", "recall@1"),
            released="eccv",
            unreachable=2,
        ),
        Definition(
            "pmrp",
            "Plausible matches: images whose categories differ in at most 2 of 80, the own pair "
            "included, R at most 50 (reproduces the ECCV Caption paper, table 4).",
            directions=_INTERMODAL,
            metrics=("pmrp",),
            zetas=(2,),
            cap=50,
        ),
        Definition(
            "pmrp_zeta0",
            "Plausible matches: images of exactly the same categories, the own pair included, R at "
            "most 50 (as the text of the ECCV Caption paper has it).",
            directions=_INTERMODAL,
            metrics=("pmrp",),
            zetas=(0,),
            cap=50,
            variant=True,
        ),
        # PCME's evaluation also removes items without a category from the ranked lists.
        Definition(
            "pmrp_pcme",
            "Plausible matches as in PCME: R-Precision averaged over images whose categories "
            "differ in at most 0, 1 and 2 of 80, among the images that have any, R not capped.",
            directions=_INTERMODAL,
            metrics=("pmrp",),
            zetas=(0, 1, 2),
            labeled_gallery=True,
            variant=True,
        ),
        # PCME prints the mean of its folds; they differ by a few items without a category.
        Definition(
            "pmrp_pcme_1k",
            "Plausible matches as in PCME, in five folds of 1,000 images in Karpathy's order: the "
            "mean over the queries of all folds.",
            directions=_INTERMODAL,
            metrics=("pmrp",),
            zetas=(0, 1, 2),
            labeled_gallery=True,
            folded=True,
            variant=True,
        ),
        Definition(
            "vinvl_1k",
            "A caption and its own image, among the 1,000 images on the list of microsoft/Oscar, "
            "which Oscar and VinVL report as COCO 1K.",
            directions=_INTERMODAL,
            metrics=_RECALLS,
            shortlisted=True,
            variant=True,
        ),
    ),
    "crisscrossed_shapes": (
        Definition("shapes_own", "A caption and its own image, and captions of one image."),
        Definition(
            "shapes",
            f"The built-in dataset's union labels: {_MERGED}.",
            thresholds=THRESHOLDS,
            correlations=_CXC_RATINGS,
        ),
        Definition(
            "shapes_matches",
            "All captions that are true of an image, and all images that a caption is true of; R "
            "is at most 256.",
            directions=_INTERMODAL,
            metrics=("map@r", "r_precision", "recall@1"),
            released="matches",
            cap=256,
            variant=True,
        ),
    ),
    "captioned_images": (
        Definition(
            "captioned_images",
            "A caption and its own image, and captions of one image.",
            # Of few images, most recalls are equal, or 100.
            metrics=(*_RECALLS, "mrr", "median_rank"),
            correlations=_CXC_RATINGS,
        ),
    ),
    "flickr8k": (
        Definition(
            "flickr8k",
            "A caption and its own image, and captions of one image.",
            metrics=(*_RECALLS, "median_rank", "map@r"),
            correlations=("expert", "crowd"),
        ),
    ),
}


def definitions_of(dataset: str) -> dict[str, Definition]:
    """Benchmark name -> definition; a dataset without an entry has one of its own pairs."""
    own = Definition(dataset, "A caption and its own image, and captions of one image.")
    return {each.name: each for each in DEFINITIONS.get(dataset, (own,))}
