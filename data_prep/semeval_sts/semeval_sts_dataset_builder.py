"""SemEval STS 2012 to 2016, the STS benchmark and SICK: sentence pairs with human similarity."""

import math
import pathlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, ClassVar

import tensorflow_datasets as tfds

from data_prep import schema
from data_prep.building.random_access import RandomAccessBuilder, configs
from data_prep.building.record_counts import Record
from data_prep.semeval_sts.rated_sets import SETS, RatedSet, first_id
from data_prep.semeval_sts.semeval_files import Scored, find_sets
from xmodal.core.errors import UnexpectedFilesError


class Builder(RandomAccessBuilder):
    """TFDS builder of the scored pairs.

    Ids are 10,000 times the position of the set in the table `SETS` plus the position of the pair
    among the scored pairs of its set, and do not depend on which sets are present. Pairs that were
    never rated are not in the dataset.
    """

    VERSION = tfds.core.Version("1.1.0")
    BUILDER_CONFIGS = configs(pairs="Sentences and their similarity.")
    UNIQUE_IDS: ClassVar[tuple[str, ...]] = ("pair_id",)
    HOMEPAGE = "https://alt.qcri.org/semeval2016/task1/"
    EXPECTED: ClassVar[dict[str, int]] = {str(each): each.pairs for each in SETS}

    def _features(self) -> tfds.features.FeaturesDict:
        return schema.sentence_pair_features()

    def _metadata(self) -> dict[str, Any]:
        averages: dict[str, list[str]] = {}
        for each in SETS:
            if each.year:
                averages.setdefault(str(each.year), []).append(each.name)
        return {"year_averages": averages}

    def _splits(self, folder: pathlib.Path) -> Mapping[str, Iterable[Record]]:
        found = find_sets(folder)
        absent = [each for each in SETS if each not in found]
        has_tasks = any(each.year for each in found)
        if needed := [str(each) for each in absent if has_tasks and not each.is_optional]:
            raise FileNotFoundError(f"{folder} lacks the sets {', '.join(needed)}")
        # A wrong row says more than the counts.
        examples: dict[str, list[Record]] = {each.split: [] for each in SETS if each in found}
        for each in (each for each in SETS if each in found):
            examples[each.split] += _examples(each, found[each])
        counts = {str(each): len(pairs) for each, pairs in found.items()}
        schema.check_counts(counts, {name: self.EXPECTED[name] for name in counts}, str(folder))
        self.info.metadata["absent"] = [str(each) for each in absent]
        return examples


def _examples(rated_set: RatedSet, pairs: Sequence[Scored]) -> Iterator[Record]:
    """Yields the pairs of a set.

    Raises:
      UnexpectedFilesError: a score is not from 0 to 5, or a sentence is empty.
    """
    for pair_id, pair in enumerate(pairs, first_id(rated_set)):
        try:
            score = float(pair.score)
        except ValueError:
            score = math.nan
        if not 0 <= score <= 5 or not all(pair.sentences):
            raise UnexpectedFilesError(
                f"{pair.where}: the score is {pair.score!r:.60}, not from 0 to 5, or a sentence of "
                f"{pair.sentences!r:.80} is empty; remove the line if it is a header"
            )
        sentences, year = pair.sentences, rated_set.year
        example = schema.sentence_pair_example(pair_id, rated_set.name, sentences, score, year=year)
        yield pair_id, example
