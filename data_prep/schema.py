"""Features that the datasets of this project share, and their published counts.

A dataset is a TFDS builder. Models are trained and evaluated on builder configs with captioned
images, one example per image: with pixels (usually called `images`), with stored features instead
of pixels (`features`), or without images (`captions`). Configs with similarity judgments
(`ratings`) have one example per rated pair, and configs with lists of positives (`matches`) one per
query. Splits are `train`, `validation` and `test`; some datasets have more (`test_deduplicated`,
`testall`).
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow_datasets as tfds

from xmodal.core.errors import UnexpectedFilesError

# An image of any size.
PIXELS = tfds.features.Image(shape=(None, None, 3))


def captioned_image_features(
    image: Any, *, relations: int = 0, categories: bool = False, tags: bool = False
) -> tfds.features.FeaturesDict:
    """Features of the configs `images`, `features` and `captions`: an image with all its captions.

    Args:
      image: feature of the image itself, `PIXELS` for pixels,
        `feature_vector(...)` for precomputed features, or None to leave it out.
      relations: number R of labels of the image-caption pair; 0 for none.
      categories: whether the object categories of some images are known.
      tags: whether the objects that a detector found are named.

    Returns:
      `image`, unless it is None; `image_id` int32, stable and unique; `captions`, text [C];
      `caption_ids` int32 [C], stable and unique over the dataset, in the order of `captions`;
      `relations` int32 [R] of 0 and 1, if any, with their names under the same key in
      `info.metadata`; `categories` uint8 [K] of 0 and 1, likewise, or [0] for an image with unknown
      categories; `tags`, the names of the objects, joined by spaces.
    """
    features = ({} if image is None else {"image": image}) | {
        "image_id": np.int32,
        "captions": tfds.features.Sequence(tfds.features.Text()),
        "caption_ids": tfds.features.Sequence(np.int32),
    }
    if relations:
        features["relations"] = tfds.features.Tensor(shape=(relations,), dtype=np.int32)
    if categories:
        features["categories"] = tfds.features.Sequence(np.uint8)
    if tags:
        features["tags"] = tfds.features.Text()
    return tfds.features.FeaturesDict(features)


def captioned_example(
    image_id: int, captions: Sequence[tuple[int, str | bytes]], **features: Any
) -> dict[str, Any]:
    """Returns an example with the features of `captioned_image_features`.

    Args:
      image_id: id of the image.
      captions: id and text of every caption.
      **features: the other features, such as `image`.
    """
    ids, texts = zip(*captions, strict=True) if captions else ((), ())
    return {"image_id": image_id, "captions": texts, "caption_ids": ids, **features}


def feature_vector(*shape: int | None) -> tfds.features.Tensor:
    """Precomputed image features, float16 of the given shape, stored as raw bytes.

    The first dimension may be None if the number of regions varies.

    Without this encoding, TFDS would store every number as float32.
    """
    return tfds.features.Tensor(shape=shape, dtype=np.float16, encoding="bytes")


def rating_features() -> tfds.features.FeaturesDict:
    """Features of the config `ratings`: one rated pair.

    Returns:
      `rating`, which also determines the kinds of the two sides (`sts` caption-caption, `sis`
      image-image, `sits` and others caption-image with the caption on the left); `left_id`,
      `right_id` int32, ids of captions and images; `score` float32, the mean over raters; `method`,
      how the pair was sampled; `rater_scores` float32 [raters], empty if only the mean is known.
    """
    return tfds.features.FeaturesDict(
        {
            "rating": tfds.features.Text(),
            "left_id": np.int32,
            "right_id": np.int32,
            "score": np.float32,
            "method": tfds.features.Text(),
            "rater_scores": tfds.features.Sequence(np.float32),
        }
    )


def rating_example(
    rating: str,
    left_id: int,
    right_id: int,
    score: float,
    method: str,
    rater_scores: Sequence[float] = (),
) -> dict[str, Any]:
    """Returns an example with the features of `rating_features`."""
    return {
        "rating": rating,
        "left_id": left_id,
        "right_id": right_id,
        "score": score,
        "method": method,
        "rater_scores": rater_scores,
    }


def positive_features() -> tfds.features.FeaturesDict:
    """Features of lists of positives: one query with all its positives.

    Returns:
      `direction`, `i2t` or `t2i`; `query_id` int32; `positive_ids` int32 [R]; `unreachable_ids`
      int32, the positives that are not in the gallery.
    """
    ids = tfds.features.Sequence(np.int32)
    return tfds.features.FeaturesDict(
        {
            "direction": tfds.features.Text(),
            "query_id": np.int32,
            "positive_ids": ids,
            "unreachable_ids": ids,
        }
    )


def sentence_pair_features() -> tfds.features.FeaturesDict:
    """Features of sentence pairs with a gold score, such as SemEval's.

    Returns:
      `pair_id` int32, unique; `year` int32; `dataset`, the set that a pair belongs to;
      `year_average` int32, the year whose mean includes that set, 0 for none; `sentence1`,
      `sentence2`; `score` float32.
    """
    text = tfds.features.Text()
    return tfds.features.FeaturesDict(
        {
            "pair_id": np.int32,
            "year": np.int32,
            "dataset": text,
            "year_average": np.int32,
            "sentence1": text,
            "sentence2": text,
            "score": np.float32,
        }
    )


def sentence_pair_example(
    pair_id: int, dataset: str, sentences: tuple[str, str], score: float, *, year: int = 0
) -> dict[str, Any]:
    """Returns an example with the features of `sentence_pair_features`.

    Args:
      pair_id: id of the pair.
      dataset: name of its set.
      sentences: the two sentences.
      score: gold score.
      year: year of the set, whose average includes it; 0 for none.
    """
    return {
        "pair_id": pair_id,
        "year": year,
        "dataset": dataset,
        "year_average": year,
        "sentence1": sentences[0],
        "sentence2": sentences[1],
        "score": score,
    }


def check_counts(found: Mapping[str, int], expected: Mapping[str, int], source: str) -> None:
    """Compares a reader's counts with the published ones.

    Args:
      found: counts by name.
      expected: published counts of some or all of these names.
      source: file or folder named in the error.

    Raises:
      UnexpectedFilesError: a count differs; lists all that do.
    """
    wrong = [
        f"{name}: {found.get(name, 0):,} instead of {count:,}"
        for name, count in expected.items()
        if found.get(name, 0) != count
    ]
    if wrong:
        raise UnexpectedFilesError(
            f"{source} is not the published dataset ({'; '.join(wrong)}). "
            "Download the files again; nothing was written."
        )
