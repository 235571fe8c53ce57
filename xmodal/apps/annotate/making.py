"""Creates a new study from a dataset and from pairs or models."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from xmodal.apps.annotate import candidates_study, preference_study, rated_pairs_study
from xmodal.apps.annotate.candidates import read_source
from xmodal.apps.annotate.questions import KINDS
from xmodal.apps.annotate.split_items import captions_of, open_items, pictures_of
from xmodal.apps.annotate.study_file import StudySettings, StudyUnit, check_new_file, create
from xmodal.core.config import read
from xmodal.core.errors import UserError
from xmodal.evals.scores.files import name_of

_RATERS = {"cxc": 5, "eccv": 1, "preference": 3}  # Per item, in the papers.
_SHARED = ("dataset", "split", "lease_minutes", "per_rater")


def make(kind: str, options: Mapping[str, Any]) -> str:
    """Writes a study and returns a one-sentence description.

    Args:
      kind: `cxc`, `eccv` or `preference`.
      options: flags of `python -m xmodal annotate make`, by name.

    Raises:
      UserError: a flag or a file cannot be used.
    """
    check_new_file(options["study"])
    section = {name: options[name] for name in _SHARED} | {"kind": kind}
    section["raters_per_item"] = options["raters_per_item"] or _RATERS[kind]
    read(StudySettings, "make", section)  # Checks numbers before the dataset is opened.
    split = open_items(options)
    units, more, said = _MAKERS[kind](options, split)
    settings = read(StudySettings, "make", section | more)
    images = _image_ids(units)
    create(options["study"], settings, units, captions_of(split), pictures_of(split, images))
    questions = sum(len(unit.questions) for unit in units)
    return (
        f"{options['study']}: {questions:,} questions in {len(units):,} units, {len(images):,} "
        f"pictures, {settings.raters_per_item} rater(s) each{said}"
    )


def _make_cxc(
    options: Mapping[str, Any], split: Any
) -> tuple[list[StudyUnit], dict[str, Any], str]:
    try:
        units = rated_pairs_study.draw_up(
            options["pairs"], split, options["ratings"], options["seed"]
        )
    except (FileNotFoundError, ValueError) as error:
        raise UserError(str(error)) from error
    return units, {}, ""


def _make_eccv(
    options: Mapping[str, Any], split: Any
) -> tuple[list[StudyUnit], dict[str, Any], str]:
    generator = np.random.default_rng(options["seed"])
    queries = {
        "i2t": candidates_study.draw_queries(split.image_ids, options["images"], generator),
        "t2i": candidates_study.draw_queries(split.caption_ids, options["captions"], generator),
    }
    models = [read_source(path, options["similarity"]) for path in options["models"]]
    queries = {direction: ids for direction, ids in queries.items() if len(ids)}
    if not queries:
        raise UserError("--images=0 and --captions=0 leave no query to ask about; draw some.")
    pool = candidates_study.collect(models, split, queries, options["top"])
    units = candidates_study.draw_up(
        pool,
        split,
        per_hit=options["per_hit"],
        qualification=options["qualification"],
        generator=generator,
    )
    names = {"i2t": "image_queries", "t2i": "caption_queries"}
    more = {names[direction]: tuple(ids.tolist()) for direction, ids in queries.items()}
    said = f"; {len(pool.pairs):,} pairs of {pool.proposed:,} that the models propose"
    return units, more | {"pass_share": options["pass_share"]}, said


def _make_preference(
    options: Mapping[str, Any], split: Any
) -> tuple[list[StudyUnit], dict[str, Any], str]:
    if len(options["models"]) != 2:
        raise UserError(f"--models names {len(options['models'])} models; two are compared.")
    first, second = (read_source(path, options["similarity"]) for path in options["models"])
    units, same = preference_study.draw_up(
        first,
        second,
        split,
        examples=options["examples"],
        labels=options["labels"],
        generator=np.random.default_rng(options["seed"]),
    )
    names = dict(zip(("first", "second"), map(name_of, options["models"]), strict=True))
    return units, names, f"; the models agree on {same:,} of {len(split.caption_ids):,} captions"


_Maker = Callable[[Mapping[str, Any], Any], tuple[list[StudyUnit], dict[str, Any], str]]
_MAKERS: Mapping[str, _Maker] = {
    "cxc": _make_cxc,
    "eccv": _make_eccv,
    "preference": _make_preference,
}


def _image_ids(units: list[StudyUnit]) -> set[int]:
    """The images that questions show."""
    found: set[int] = set()
    for question in (question for unit in units for question in unit.questions):
        sides = zip(KINDS[question.kind].sides, (question.left, question.right), strict=True)
        found.update(each for side, each in sides if side == "image")
    return found
