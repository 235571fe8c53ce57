"""Caption pairs from the same image and from different images: a sentence similarity test.

COCO-Test and Pin-Test of VETE (Kurach et al. 2017): 1,000 pairs of captions of one image, score 1,
and 1,000 of two images, score 0. They are drawn from all captions of the test images, before the
captions are reduced to one per image. The authors published neither the draws nor a seed.
"""

from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from data_prep import schema
from data_prep.building.record_counts import Record

PAIRS = 1000
"""Number of pairs of each kind."""
_SEED = 0


def caption_pairs(name: str, images: Iterable[tuple[int, Sequence[str]]]) -> Iterator[Record]:
    """Yields pairs with the features of `schema.sentence_pair_features`, always the same.

    Positives are two different captions of `PAIRS` different images, negatives two different
    captions of two images; no pair is repeated.

    Args:
      name: name of the set.
      images: id and captions of every test image.

    Raises:
      UnexpectedFilesError: fewer images than `PAIRS` have two different captions.
    """
    captions = {image: list(dict.fromkeys(texts)) for image, texts in sorted(images)}
    described = [image for image, texts in captions.items() if len(texts) > 1]
    # NumPy guarantees the same raw bits in all versions.
    bits = np.random.Philox(key=_SEED)
    chosen = np.argsort(bits.random_raw(len(described)), kind="stable")[:PAIRS]
    for number, place in enumerate(chosen):
        texts = captions[described[place]]
        first = int(bits.random_raw() % len(texts))
        second = int(bits.random_raw() % (len(texts) - 1))
        yield _record(number, name, texts[first], texts[second + (second >= first)], 1)
    everyone = list(captions)
    seen: set[tuple[str, str]] = set()
    while len(seen) < PAIRS:
        pair = [everyone[int(bits.random_raw() % len(everyone))] for _ in range(2)]
        first_text, second_text = (
            captions[image][int(bits.random_raw() % len(captions[image]))] for image in pair
        )
        both = (first_text, second_text)
        if pair[0] != pair[1] and first_text != second_text and both not in seen:
            yield _record(PAIRS + len(seen), name, first_text, second_text, 0)
            seen.add(both)


def _record(pair_id: int, name: str, first: str, second: str, score: int) -> Record:
    sentences = first.strip(), second.strip()
    return pair_id, schema.sentence_pair_example(pair_id, name, sentences, score)
