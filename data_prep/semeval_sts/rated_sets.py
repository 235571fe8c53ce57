"""The English pair sets of SemEval's STS tasks, 2012 to 2016, the STS benchmark, and SICK."""

import dataclasses


@dataclasses.dataclass(frozen=True)
class RatedSet:
    """One set.

    Attributes:
      year: year of the task, whose average the set belongs to; 0 for the STS benchmark and SICK.
      name: as in the file names.
      split: `train`, `validation` or `test`; among the tasks, only 2012 had training pairs.
      pairs: number of pairs with a score. From 2015 on, the files list more, which were given to
        the participants but never rated.
      is_optional: whether most copies of the other sets lack this one.
    """

    year: int
    name: str
    split: str
    pairs: int
    is_optional: bool = False

    def __str__(self) -> str:
        year = f"{self.year} " if self.year else ""
        return f"{year}{self.name} ({self.split})"


# The position in this table is part of the pair ids, so new sets go to the end.
SETS = (
    RatedSet(2012, "MSRpar", "train", 750, is_optional=True),
    RatedSet(2012, "MSRvid", "train", 750, is_optional=True),
    RatedSet(2012, "SMTeuroparl", "train", 734, is_optional=True),
    RatedSet(2012, "MSRpar", "test", 750),
    # The video descriptions require accepting a license, and are missing from most copies.
    RatedSet(2012, "MSRvid", "test", 750, is_optional=True),
    RatedSet(2012, "SMTeuroparl", "test", 459),
    RatedSet(2012, "OnWN", "test", 750),
    RatedSet(2012, "SMTnews", "test", 399),
    RatedSet(2013, "FNWN", "test", 189),
    RatedSet(2013, "OnWN", "test", 561),
    RatedSet(2013, "headlines", "test", 750),
    # Distributed only by the Linguistic Data Consortium.
    RatedSet(2013, "SMT", "test", 750, is_optional=True),
    RatedSet(2014, "deft-forum", "test", 450),
    RatedSet(2014, "deft-news", "test", 300),
    RatedSet(2014, "headlines", "test", 750),
    RatedSet(2014, "images", "test", 750),
    RatedSet(2014, "OnWN", "test", 750),
    RatedSet(2014, "tweet-news", "test", 750),
    RatedSet(2015, "answers-forums", "test", 375),
    RatedSet(2015, "answers-students", "test", 750),
    RatedSet(2015, "belief", "test", 375),
    RatedSet(2015, "headlines", "test", 750),
    RatedSet(2015, "images", "test", 750),
    RatedSet(2016, "answer-answer", "test", 254),
    RatedSet(2016, "headlines", "test", 249),
    RatedSet(2016, "plagiarism", "test", 230),
    RatedSet(2016, "postediting", "test", 244),
    RatedSet(2016, "question-question", "test", 209),
    # A selection of the pairs above and of MSRvid, with a split of its own (Cer et al. 2017).
    RatedSet(0, "stsbenchmark", "train", 5749, is_optional=True),
    RatedSet(0, "stsbenchmark", "validation", 1500, is_optional=True),
    RatedSet(0, "stsbenchmark", "test", 1379, is_optional=True),
    # Marelli et al. 2014; some sentences are rewritten captions of Flickr8k.
    RatedSet(0, "sick", "train", 4500, is_optional=True),
    RatedSet(0, "sick", "validation", 500, is_optional=True),
    RatedSet(0, "sick", "test", 4927, is_optional=True),
)


def first_id(rated_set: RatedSet) -> int:
    """Id of the first scored pair of a set; the others follow in the order of the file."""
    return SETS.index(rated_set) * 10_000
