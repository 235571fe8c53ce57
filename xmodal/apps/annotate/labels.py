"""Makes labels from the answers of a study, in the released layouts."""

import json
import math
import os
import pathlib
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from data_prep.cxc.cxc_files import RATINGS, THRESHOLDS, file_name, format_cxc_file
from xmodal.apps.analysis.votes import ALL, SAME
from xmodal.apps.annotate.answers import Answer, find_doubts, group, read_answers
from xmodal.apps.annotate.questions import POSITIVE
from xmodal.apps.annotate.rater_quality import compute_alphas, quality_file
from xmodal.core.errors import UserError
from xmodal.core.files import csv_text, format_json, write_files
from xmodal.core.text_table import Rows, format_document

if TYPE_CHECKING:
    from xmodal.apps.annotate.study_file import StudyFile, StudySettings

_ENDS = {"i2t": "image_to_caption", "t2i": "caption_to_image"}
_NO_GROUP = "none"
_Pair = tuple[int, int]  # Caption and image.
Lists = dict[int, list[int]]


def aggregate(
    study: "StudyFile",
    output: str | os.PathLike,
    *,
    add: str | None = None,
    without: str | None = None,
    human_only: bool = False,
) -> str:
    """Writes labels, all answers, and how well the raters agree; returns the report as Markdown.

    Args:
      study: study whose questions count if all their raters have answered.
      output: folder; older files of the same names are replaced.
      add: folder of annotations whose CxC positives for the same queries are added.
      without: text file of caption ids that are left out.
      human_only: leave out original pairs that no rater saw.
    """
    settings = study.settings
    if settings.kind != "eccv" and (add or without or human_only):
        raise UserError("--add, --without and --human_only are for studies of the kind eccv.")
    answers = read_answers(study)
    counted = [answer for answer in answers if answer.counts]
    progress = _describe_progress(study, answers)
    if not counted:
        raise UserError(
            f"No question of {study.path} has the answers of all its "
            f"{settings.raters_per_item} rater(s) yet: there is nothing to aggregate. {progress}"
        )
    parts: list[str | Rows] = [progress]
    contents = {
        "answers.csv": csv_text([Answer._fields, *answers]),
        "raters.csv": quality_file(answers),
    }
    if settings.kind == "cxc":
        means = mean_ratings(counted)
        for rating, columns in means.items():
            contents[file_name(rating, settings.split)] = format_cxc_file(rating, columns)
        parts.append(_tabulate_ratings(means))
    elif settings.kind == "eccv":
        pairs = _judge(study, counted, human_only) | (
            read_added(add, settings.split) if add else set()
        )
        left_out = _read_left_out(without) if without else set()
        pairs = {pair for pair in pairs if pair[0] not in left_out}
        lists = positives_of_queries(pairs, settings.image_queries, settings.caption_queries)
        contents |= _format_lists("eccv", lists)
        parts.append(_tabulate_lists(lists))
    else:
        contents["votes.csv"] = vote_file(counted, settings)
        told = "votes.csv is for `python -m xmodal votes --answers=FILE`."
        if same := len(settings.same):
            told += f" Its {same:,} captions with `same` weigh too much until all units are done."
        parts.append(told)
    if settings.kind != "preference":  # Evaluations need the captions and images of the split.
        originals = _read_originals(study)
        captions, images = zip(*originals, strict=True)
        contents |= _format_lists("original", positives_of_queries(originals, images, captions))
    alphas = compute_alphas(answers)
    contents["agreement.json"] = format_json({"krippendorff_alpha": alphas})
    rows = [
        [kind, level, f"{alpha:.3f}"]
        for kind, levels in alphas.items()
        for level, alpha in levels.items()
    ]
    parts.append([["question", "level", "Krippendorff's alpha"], *rows])
    report = format_document(parts)
    contents |= {"report.md": report, "report.tex": format_document(parts, "latex")}
    write_files(output, contents)
    return f"{report}\n{output}: {', '.join(sorted(contents))}"


def mean_ratings(answers: Iterable[Answer]) -> dict[str, dict[str, np.ndarray]]:
    """Returns the mean of every pair.

    Returns:
      Rating -> `left_ids`, `right_ids` int64 [P], `scores` float64 [P] and `methods` strings [P],
      in the order of the questions.
    """
    by_rating = group(answers, lambda answer: answer.kind)
    found = {}
    for rating in (each for each in RATINGS if each in by_rating):
        pairs = list(group(by_rating[rating], lambda answer: answer.question).values())
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


def _judge(study: "StudyFile", answers: Iterable[Answer], human_only: bool) -> set[_Pair]:
    """The pairs that more than half of their raters call right, and originals that nobody saw."""
    votes = group(answers, lambda answer: (answer.left, answer.right))
    positive = {
        pair
        for pair, own in votes.items()
        if 2 * sum(answer.value in POSITIVE for answer in own) > len(own)
    }
    return positive if human_only else positive | (set(_read_originals(study)) - votes.keys())


def positives_of_queries(
    pairs: Iterable[_Pair], image_queries: Iterable[int], caption_queries: Iterable[int]
) -> dict[str, Lists]:
    """Returns direction, `i2t` and `t2i`, -> query -> sorted ids, for queries with positives.

    Args:
      pairs: positive ones.
      image_queries: ids.
      caption_queries: ids.
    """
    queries = {"i2t": set(image_queries), "t2i": set(caption_queries)}
    pairs = set(pairs)
    found: dict[str, Lists] = {"i2t": {}, "t2i": {}}
    for direction, lists in found.items():
        turned = sorted((image, caption) if direction == "i2t" else (caption, image)
                        for caption, image in pairs)  # fmt: skip
        for query, item in turned:
            if query in queries[direction]:
                lists.setdefault(query, []).append(item)
    return found


def _format_lists(name: str, lists: Mapping[str, Lists]) -> dict[str, str]:
    """File name -> content, in the format of the released JSON files."""
    return {f"{name}_{_ENDS[direction]}.json": json.dumps(lists[direction]) for direction in lists}


def _tabulate_lists(lists: Mapping[str, Lists]) -> Rows:
    names = {"i2t": "captions of an image", "t2i": "images of a caption"}
    rows = [["positives", "queries", "number", "per query"]]
    for direction, of_query in lists.items():
        positives = sum(map(len, of_query.values()))
        mean = f"{positives / len(of_query):.2f}" if of_query else ""
        rows.append([names[direction], f"{len(of_query):,}", f"{positives:,}", mean])
    return rows


def _read_originals(study: "StudyFile") -> list[_Pair]:
    """Every caption of the split with its own image."""
    with study.reading() as connection:
        rows = connection.execute("SELECT id, image FROM captions ORDER BY rowid").fetchall()
    return [tuple(row) for row in rows]


def read_added(folder: str, split: str) -> set[_Pair]:
    """Returns the CxC positives of a folder of annotations: its lists, else its ratings from 3."""
    from xmodal.evals.labels.annotations import read_annotations

    labels = read_annotations(folder, split)
    if lists := labels.lists.get("cxc"):
        pairs: set[_Pair] = set()
        for direction, (queries, items) in lists.items():
            captions, images = (items, queries) if direction == "i2t" else (queries, items)
            pairs.update(zip(captions.tolist(), images.tolist(), strict=True))
        return pairs
    rated = labels.ratings["sits"]
    good = rated["scores"] >= THRESHOLDS["sits"]
    ids = (rated[side][good].tolist() for side in ("left_ids", "right_ids"))
    return set(zip(*ids, strict=True))


def _read_left_out(path: str) -> set[int]:
    """The caption ids of a text file, one per line."""
    try:
        return set(map(int, pathlib.Path(path).read_text(encoding="utf-8-sig").split()))
    except (OSError, ValueError) as error:
        raise UserError(f"--without={path} is not a list of caption ids: {error}.") from error


def vote_file(answers: Iterable[Answer], settings: "StudySettings") -> str:
    """Returns a CSV file with a row per answer, in the format of `xmodal votes`.

    There are rows for every group of a caption, `none` without any, and for the group `all`, in
    which a caption of several groups counts once. A caption for which both models find the same
    picture has the answer `same`, without a rater.
    """
    rows: list[tuple[list[object], Sequence[str]]] = [
        ([caption, SAME, "", ""], groups) for caption, groups in settings.same.items()
    ]
    for answer in answers:
        left = settings.second if answer.swapped else settings.first
        groups = json.loads(answer.note) if answer.note else []
        rows.append(([answer.about, answer.value, answer.rater, left], groups))
    named = ([*row, name] for row, groups in rows for name in (*(groups or [_NO_GROUP]), ALL))
    return csv_text([["example", "answer", "rater", "left_model", "group"], *named])


def _describe_progress(study: "StudyFile", answers: list[Answer]) -> str:
    with study.reading() as connection:
        units, complete = connection.execute(
            "SELECT count(*), sum(done >= ?) FROM units WHERE NOT test",
            (study.settings.raters_per_item,),
        ).fetchone()
    raters, waiting = len({answer.rater for answer in answers}), len(find_doubts(answers))
    review = f" {waiting:,} unit(s) wait for `xmodal annotate review` and do not count yet."
    return (
        f"{len(answers):,} answers of {raters} rater(s); {complete:,} of {units:,} units have all "
        f"their raters.{review if waiting else ''}"
    )
