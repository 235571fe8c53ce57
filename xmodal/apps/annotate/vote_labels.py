"""Votes between every two models, from the answers of studies of the kind `preference`."""

import itertools
from collections.abc import Iterable, Iterator, Sequence

from xmodal.apps.analysis.votes import ALL, SAME
from xmodal.apps.annotate.answers import Answer, group
from xmodal.apps.annotate.study_file import Proposal, StudySettings
from xmodal.core.files import csv_text

_NO_GROUP = "none"
_TURNED = {"better": "worse", "worse": "better"}


def vote_file(
    answers: Iterable[Answer], settings: StudySettings, proposals: Sequence[Proposal]
) -> str:
    """Returns a CSV file with a row per answer on two models, for `votes` and `bradley_terry`.

    An answer is about the first of the two, and counts for every two models that found the two
    pictures. There are rows for the group `all`, in which a caption of several groups counts once,
    and, in a study with groups, for every group of a caption, `none` without any. A caption for
    which both models find the same picture has the answer `same`, without a rater.

    Args:
      answers: answers that count.
      settings: the groups of the captions.
      proposals: the picture that every model finds.
    """
    found: dict[int, dict[str, int]] = {}
    for each in proposals:
        found.setdefault(each.caption, {})[each.model] = each.image
    asked = group(answers, lambda answer: (answer.about, frozenset((answer.left, answer.right))))
    rows: list[list[object]] = []
    for models in itertools.combinations(dict.fromkeys(each.model for each in proposals), 2):
        for caption, pictures in found.items():
            if not pictures.keys() >= set(models):
                continue
            first, second = (pictures[model] for model in models)
            own = asked.get((caption, frozenset((first, second))), [])
            given = [(SAME, "", "")] if first == second else [*_turn(own, first, models)]
            groups = settings.groups.get(str(caption)) or [_NO_GROUP] * bool(settings.groups)
            named = itertools.product(given, (*groups, ALL))
            rows += [[caption, *answer, name, *models] for answer, name in named]
    head = ["example", "answer", "rater", "left_model", "group", "first_model", "second_model"]
    return csv_text([head, *rows])


def _turn(
    answers: Iterable[Answer], first: int, models: tuple[str, str]
) -> Iterator[tuple[str, str, str]]:
    """Answer, rater and the model shown on the left, for the model whose picture is `first`."""
    for each in answers:
        value = each.value if each.left == first else _TURNED.get(each.value, each.value)
        on_left = each.right if each.swapped else each.left
        yield value, each.rater, models[on_left != first]
