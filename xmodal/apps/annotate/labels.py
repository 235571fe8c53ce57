"""Makes labels from the answers of a study, in the released layouts."""

import dataclasses
import itertools
import math
import os
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from data_prep.cxc.cxc_files import RATINGS, THRESHOLDS, file_name, format_cxc_file
from xmodal.apps.analysis.votes import ALL, SAME
from xmodal.apps.annotate.answers import Answer, find_doubts, group, read_all_answers
from xmodal.apps.annotate.match_labels import (
    Pair,
    choose_proposals,
    describe_proposals,
    format_lists,
    label_matches,
    positives_of_queries,
)
from xmodal.apps.annotate.rater_quality import compute_alphas, quality_file
from xmodal.core.errors import UserError
from xmodal.core.files import csv_text, format_json, write_files
from xmodal.core.text_table import Rows, format_document
from xmodal.evals.labels.definitions import STUDY

if TYPE_CHECKING:
    from xmodal.apps.annotate.study_file import Proposal, StudyFile, StudySettings

_NO_GROUP = "none"
_TURNED = {"better": "worse", "worse": "better"}


def aggregate(
    studies: Sequence["StudyFile"],
    output: str | os.PathLike,
    *,
    name: str | None = None,
    from_models: Collection[str] | None = None,
    **choice: Any,
) -> str:
    """Writes labels, all answers, and how well the raters agree; returns the report as Markdown.

    Args:
      studies: studies of one kind and dataset, whose questions count if all their raters have
        answered.
      output: folder; older files of the same names are replaced.
      name: name of the labels in results of evaluations; None for that of the folder.
      from_models: models whose proposals count, as if the others had not been asked; None for all.
      choice: options of `label_matches`, for studies of the kind `eccv`.
    """
    settings = _join(studies)
    is_eccv = settings.kind == "eccv"
    if not is_eccv and (from_models or {*choice.values()} - {None, False, "majority"}):
        raise UserError("Only studies of the kind eccv have proposals and positives to choose.")
    answers = read_all_answers(studies)
    given = (each for study in studies for each in study.read_proposals())
    proposals = choose_proposals(given, from_models)
    proposed = describe_proposals(proposals if is_eccv else [])
    counted = [answer for answer in answers if answer.counts]
    if from_models is not None:
        counted = [answer for answer in counted if (answer.left, answer.right) in proposed]
    progress = "\n\n".join(_describe_progress(study, answers) for study in studies)
    if not counted:
        raise UserError(
            "No question has the answers of all its raters yet: there is nothing to aggregate. "
            + progress
        )
    parts: list[str | Rows] = [progress]
    rows = ((*x, int(x.counts), proposed.get((x.left, x.right), "")) for x in answers)
    contents = {
        "answers.csv": csv_text([(*Answer._fields, "counts", "proposed_by"), *rows]),
        "raters.csv": quality_file(answers),
    }
    # Every caption of the split with its own image.
    read = (study.rows("SELECT id, image FROM captions ORDER BY rowid") for study in studies)
    originals: list[Pair] = [*dict.fromkeys((row[0], row[1]) for rows in read for row in rows)]
    if settings.kind == "cxc":
        means = mean_ratings(counted)
        for rating, columns in means.items():
            contents[file_name(rating, settings.split)] = format_cxc_file(rating, columns)
        parts.append(_tabulate_ratings(means))
    elif is_eccv:
        files, tables = label_matches(counted, proposals, originals, settings, **choice)
        contents |= files
        parts += tables
    else:
        contents["votes.csv"] = vote_file(counted, settings, proposals)
        parts.append(
            "votes.csv is for `xmodal votes --answers=FILE` and `bradley_terry --preferences=FILE`."
            " Its answers `same` weigh too much until all units are done."
        )
    if settings.kind != "preference":  # Evaluations need the captions and images of the split.
        captions, images = zip(*originals, strict=True)
        contents |= format_lists("original", positives_of_queries(originals, images, captions))
        study = {"dataset": settings.dataset, "split": settings.split}
        contents[STUDY] = format_json(study | ({"name": name} if name else {}))
    alphas = compute_alphas(answers)
    table = [["question", "level", "Krippendorff's alpha"]]
    for kind, levels in alphas.items():
        table += [[kind, level, f"{alpha:.3f}"] for level, alpha in levels.items()]
    parts.append(table)
    contents["agreement.json"] = format_json({"krippendorff_alpha": alphas})
    report = format_document(parts)
    contents |= {"report.md": report, "report.tex": format_document(parts, "latex")}
    write_files(output, contents)
    return f"{report}\n{output}: {', '.join(sorted(contents))}"


def _join(studies: Sequence["StudyFile"]) -> "StudySettings":
    """The settings of several studies of the same items, with the queries and groups of all."""
    settings = [study.settings for study in studies]
    kinds = {(each.kind, each.dataset, each.split) for each in settings}
    if len(kinds) > 1 or len({study.name for study in studies}) < len(studies):
        raise UserError(
            f"--study names {', '.join(str(study.path) for study in studies)}: studies must have "
            "one kind, dataset and split, and different names."
        )
    joined = {
        name: tuple(dict.fromkeys(x for each in settings for x in getattr(each, name)))
        for name in ("image_queries", "caption_queries")
    }
    groups = {key: names for each in settings for key, names in each.groups.items()}
    return dataclasses.replace(settings[0], **joined, groups=groups)


def mean_ratings(answers: Iterable[Answer]) -> dict[str, dict[str, np.ndarray]]:
    """Returns the mean of every pair.

    Returns:
      Rating -> `left_ids`, `right_ids` int64 [P], `scores` float64 [P] and `methods` strings [P],
      in the order of the questions.
    """
    by_rating = group(answers, lambda answer: answer.kind)
    found = {}
    for rating in (each for each in RATINGS if each in by_rating):
        pairs = [*group(by_rating[rating], lambda x: x.question).values()]
        found[rating] = {
            "left_ids": np.array([pair[0].left for pair in pairs]),
            "right_ids": np.array([pair[0].right for pair in pairs]),
            "scores": np.array([math.fsum(float(x.value) for x in p) / len(p) for p in pairs]),
            "methods": np.array([pair[0].note for pair in pairs]),
        }
    return found


def _tabulate_ratings(means: dict[str, dict[str, np.ndarray]]) -> Rows:
    rows = [["rating", "sampling method", "pairs", "mean", "positive from", "positive"]]
    for rating, columns in means.items():
        for method in dict.fromkeys(columns["methods"].tolist()):
            scores = columns["scores"][columns["methods"] == method]
            positive = int((scores.round(2) >= THRESHOLDS[rating]).sum())
            pairs, mean = f"{len(scores):,}", f"{scores.mean():.2f}"
            rows.append([rating, method, pairs, mean, f"{THRESHOLDS[rating]}", f"{positive:,}"])
    return rows


def _describe_progress(study: "StudyFile", answers: list[Answer]) -> str:
    sql = "SELECT count(*), sum(done >= ?) FROM units WHERE NOT test"
    ((units, complete),) = study.rows(sql, study.settings.raters_per_item)
    answers = [answer for answer in answers if answer.study == study.name]
    raters, waiting = len({answer.rater for answer in answers}), len(find_doubts(answers))
    review = f" {waiting:,} unit(s) wait for `xmodal annotate review` and do not count yet."
    return (
        f"{study.name}: {len(answers):,} answers of {raters} rater(s); {complete:,} of {units:,} "
        f"units have all their raters.{review if waiting else ''}"
    )


def vote_file(
    answers: Iterable[Answer], settings: "StudySettings", proposals: Sequence["Proposal"]
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
