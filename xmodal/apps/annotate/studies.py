"""The kinds of studies: the questions of each, drawn from a dataset and from pairs or models.

`cxc`: pairs with a slider from 0 to 5, as in Crisscrossed Captions.

`eccv`: candidates of several models in sets (HITs), as in ECCV Caption; see `candidates`.

`preference`: a blind comparison of two or more models, as in table 6 of the CMCM paper. A caption
is shown with the first pictures that two models find; if both find the same one, this counts as the
answer `same` and nobody is asked.
"""

import dataclasses
import itertools
import pathlib
from collections.abc import Collection, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from xmodal.api.search.items import open_split
from xmodal.api.search.pictures import for_browsers
from xmodal.apps.analysis.ratings.rated_pairs import read_folder
from xmodal.apps.analysis.votes import describe_power
from xmodal.apps.annotate.candidates import collect, draw_queries, draw_sets
from xmodal.apps.annotate.match_labels import Pair, read_judged
from xmodal.apps.annotate.questions import KINDS
from xmodal.apps.annotate.study_file import (
    Proposal,
    StudyQuestion,
    StudySettings,
    StudyUnit,
    check_new_file,
    create,
)
from xmodal.apps.arguments import DATASET, read_names
from xmodal.apps.model_files import best_items, read_source
from xmodal.core.config import lookup, read
from xmodal.core.errors import UserError

if TYPE_CHECKING:
    from xmodal.data import EvalSplit
    from xmodal.evals.scores.sources import Source

_RATERS = {"cxc": 5, "eccv": 1, "preference": 3}  # Per item, in the papers.
_AT_A_TIME = 64


def make(kind: str, options: Mapping[str, Any]) -> str:
    """Writes a study and returns a one-sentence description.

    Args:
      kind: `cxc`, `eccv` or `preference`.
      options: flags of `python -m xmodal annotate make`, by name.
    """
    check_new_file(options["study"])
    paths = read_names(options.get("models", []))
    names = {each.name for each in dataclasses.fields(StudySettings)} & options.keys()
    section = {name: options[name] for name in names} | {"kind": kind}
    section["raters_per_item"] = options["raters_per_item"] or _RATERS[kind]
    settings = read(StudySettings, "make", section)  # Checks numbers before the dataset is opened.
    if kind == "preference" and len(paths) < 2:
        raise UserError(f"--models names {len(paths)} model(s); at least two are compared.")
    split = open_split({name: options[name] for name in DATASET})
    generator, said = np.random.default_rng(options["seed"]), ""
    models = {name: read_source(path, options["similarity"]) for name, path in paths.items()}
    proposals: list[Proposal] = []
    if kind == "cxc":
        units = draw_rated(options["pairs"], split, options["ratings"], options["seed"])
    elif kind == "eccv":
        queries = {
            "i2t": draw_queries(split.image_ids, options["images"], generator),
            "t2i": draw_queries(split.caption_ids, options["captions"], generator),
        }
        judged = set[Pair]().union(*map(read_judged, options["exclude"] or ()))
        pool = collect(models, split, queries, options["top"], judged)
        per_hit, qualification = options["per_hit"], options["qualification"]
        units = draw_sets(pool, split, per_hit, qualification, generator)
        proposals = pool.proposals
        images, captions = (tuple(ids.tolist()) for ids in queries.values())
        settings = dataclasses.replace(settings, image_queries=images, caption_queries=captions)
        said = f"; {len(pool.pairs):,} pairs of {len(proposals):,} that the models propose"
        known = len({each.pair for each in proposals} & judged)
        said += f"; {known:,} more are judged already" if options["exclude"] else ""
    else:
        count, labels = options["examples"], options["labels"]
        units, groups, proposals = draw_preferences(models, split, count, labels, generator)
        settings = dataclasses.replace(settings, groups=groups)
        found = {name: [each.image for each in proposals if each.model == name] for name in paths}
        differ = []
        for first, second in itertools.combinations(paths, 2):
            differ.append(int(np.not_equal(found[first], found[second]).sum()))
            said += f"\n{first}, {second}: {differ[-1]:,} captions with different pictures, "
            said += f"{len(found[first]) - differ[-1]:,} with the same one (`same`)"
        said += "\n" + describe_power(min(differ), settings.raters_per_item)
    questions = [question for unit in units for question in unit.questions]
    ends = [(KINDS[each.kind].sides, (each.left, each.right)) for each in questions]
    shown = {end for each in ends for side, end in zip(*each, strict=True) if side == "image"}
    ids = split.caption_ids.tolist(), split.caption_texts, split.caption_image_ids.tolist()
    pictures = _pictures_of(split, shown)
    create(options["study"], settings, units, zip(*ids, strict=True), pictures, proposals)
    return (
        f"{options['study']}: {len(questions):,} questions in {len(units):,} units, {len(shown):,} "
        f"pictures, {settings.raters_per_item} rater(s) each{said}"
    )


def _pictures_of(split: "EvalSplit", image_ids: set[int]) -> Iterator[tuple[int, str, bytes]]:
    """Id, media type and file content of the pictures of some images."""
    rows = np.flatnonzero(np.isin(split.image_ids, list(image_ids)))
    for start in range(0, len(rows), _AT_A_TIME):
        at = rows[start : start + _AT_A_TIME]
        for image, data in zip(split.image_ids[at].tolist(), split.pictures(at), strict=True):
            yield image, *for_browsers(data)


def draw_rated(
    folder: str, split: "EvalSplit", ratings: Collection[str] | None, seed: int
) -> list[StudyUnit]:
    """Returns a unit per pair, numbered as in the files and assigned in random order by rating.

    Args:
      folder: folder of `{sts,sis,sits}_SPLIT.csv`, rated or not, as from `xmodal sample_pairs`.
      split: split with the captions and images of the pairs.
      ratings: any of `sts`, `sis` and `sits`; None for all that have a file.
      seed: seed of the order.
    """
    rated = read_folder(pathlib.Path(folder), split.split, need_scores=False)
    for name in ratings or ():
        lookup("--ratings", name, rated)
    ids = {"caption": split.caption_ids, "image": split.image_ids}
    units = []
    for stage, rating in enumerate(name for name in rated if ratings is None or name in ratings):
        pairs = rated[rating]
        ends = [np.asarray(side) for side in (pairs.left_ids, pairs.right_ids)]
        for kind, side in zip(KINDS[rating].sides, ends, strict=True):
            if len(lost := np.setdiff1d(side, ids[kind])):
                raise UserError(
                    f"{len(lost):,} of the {kind}s that {folder} pairs in {rating} are not in the "
                    f"split {split.split} of {split.name}, the first is {lost[0]}."
                )
        order = np.random.default_rng((seed, stage)).permutation(len(pairs))
        columns = (each.tolist() for each in (*ends, pairs.methods, order))
        for left, right, method, position in zip(*columns, strict=True):
            question = StudyQuestion(rating, left, right, note=method)
            units.append(StudyUnit((question,), stage=stage, position=position))
    return units


def draw_preferences(
    models: Mapping[str, "Source"],
    split: "EvalSplit",
    examples: int,
    labels: str | None,
    generator: np.random.Generator,
) -> tuple[list[StudyUnit], dict[str, list[str]], list[Proposal]]:
    """Returns a unit per caption and two pictures, caption -> groups, and who finds which picture.

    Two pictures of a caption are asked about once, however many models find them.

    Args:
      models: name -> a model that is compared with all others.
      split: captions and pictures.
      examples: largest number of captions to draw.
      labels: column of 0 and 1 [N, R] whose names group the captions; None for no groups.
      generator: random generator for the draw.
    """
    drawn = generator.permutation(len(split.caption_ids))[:examples]
    captions = split.caption_ids[drawn]
    found = (best_items(each, split, "t2i", captions, 1) for each in models.values())
    units: list[StudyUnit] = []
    proposals: list[Proposal] = []
    for about, *best in zip(captions.tolist(), *found, strict=True):
        pictures = [int(items[0]) for items in best]
        named = zip(models, pictures, strict=True)
        proposals += (Proposal(about, picture, name, "t2i", 1) for name, picture in named)
        for left, right in itertools.combinations(dict.fromkeys(pictures), 2):
            question = StudyQuestion("preference", left, right, about)
            units.append(StudyUnit((question,), position=len(units)))
    return units, _read_groups(split, labels, drawn) if labels else {}, proposals


def _read_groups(split: "EvalSplit", name: str, captions: np.ndarray) -> dict[str, list[str]]:
    """Id of captions at some positions -> names of their labels."""
    known = sorted(set(split.labels) & set(split.label_names))
    if name not in known:
        raise UserError(f"--labels={name} is not a column with named labels; known: {known}.")
    names = np.array(split.label_names[name], object)
    of_image = [names[row > 0].tolist() for row in split.labels[name]]
    return {str(split.caption_ids[x]): of_image[split.caption_rows[x]] for x in captions}
