"""Makes labels from the answers of a study, in the released layouts."""

import math
import os

from xmodal.apps.annotate.collected import Answer, format_answers, read_answers
from xmodal.apps.annotate.golden import find_doubts
from xmodal.apps.annotate.match_labels import (
    judge_pairs,
    lists_files,
    positives_of_queries,
    read_added,
    read_left_out,
    read_originals,
)
from xmodal.apps.annotate.rater_quality import compute_alphas, explain_no_alpha, quality_file
from xmodal.apps.annotate.rating_labels import describe_ratings, mean_ratings, rating_files
from xmodal.apps.annotate.study_file import StudyFile
from xmodal.apps.annotate.vote_labels import vote_file
from xmodal.core.errors import UserError
from xmodal.core.result_files import format_json, write_files
from xmodal.core.text_table import Rows, format_document

_SHOWN = 10  # Units named in a sentence.


def aggregate(
    study: StudyFile,
    output: str | os.PathLike,
    *,
    add: str | None = None,
    without: str | None = None,
    human_only: bool = False,
) -> str:
    """Writes labels, all answers, and how well the raters agree.

    Args:
      study: study whose questions count if all their raters have answered.
      output: folder; older files of the same names are replaced.
      add: folder of annotations whose CxC positives for the same queries are added.
      without: text file of caption ids that are left out.
      human_only: leave out original pairs that no rater saw.

    Returns:
      The report as Markdown.

    Raises:
      UserError: there are no labels yet, or a file cannot be used.
    """
    if study.settings.kind != "eccv" and (add or without or human_only):
        raise UserError("--add, --without and --human_only are for studies of the kind eccv.")
    answers = read_answers(study)
    if not any(answer.counts for answer in answers):
        raise UserError(
            f"No question of {study.path} has the answers of all its "
            f"{study.settings.raters_per_item} rater(s) yet: there is nothing to aggregate."
            f"{_describe_waiting(study)}"
        )
    parts: list[str | Rows] = [_describe_progress(study, answers)]
    contents = {"answers.csv": format_answers(answers), "raters.csv": quality_file(answers)}
    if study.settings.kind == "cxc":
        means = mean_ratings(answers)
        contents |= rating_files(means, study.settings.split)
        header = ["rating", "sampling method", "pairs", "mean", "positive from", "positive"]
        parts.append([header, *describe_ratings(means)])
    elif study.settings.kind == "eccv":
        lists = _positives(study, answers, add, without, human_only)
        contents |= lists_files("eccv", lists)
        parts.append(_tabulate_lists(lists))
    else:
        contents["votes.csv"] = vote_file(answers, study.settings)
        parts.append("votes.csv is for `python -m xmodal votes --answers=FILE`.")
    if study.settings.kind != "preference":
        contents |= _original_files(study)
    alphas = compute_alphas(answers)
    contents["agreement.json"] = format_json({"krippendorff_alpha": alphas})
    rows = [
        [kind, level, explain_no_alpha(answers, kind) if math.isnan(alpha) else f"{alpha:.3f}"]
        for kind, levels in alphas.items()
        for level, alpha in levels.items()
    ]
    parts.append([["question", "level", "Krippendorff's alpha"], *rows])
    report = format_document(parts)
    contents |= {"report.md": report, "report.tex": format_document(parts, "latex")}
    write_files(output, contents)
    return f"{report}\n{output}: {', '.join(sorted(contents))}"


def _positives(
    study: StudyFile,
    answers: list[Answer],
    add: str | None,
    without: str | None,
    human_only: bool,
) -> dict[str, dict[int, list[int]]]:
    settings, judged = study.settings, judge_pairs(answers)
    pairs = set(judged.positive)
    if not human_only:
        pairs |= set(read_originals(study)) - judged.negative
    if add:
        pairs |= read_added(add, settings.split)
    if without:
        left_out = read_left_out(without)
        pairs = {pair for pair in pairs if pair[0] not in left_out}
    return positives_of_queries(pairs, settings.image_queries, settings.caption_queries)


def _original_files(study: StudyFile) -> dict[str, str]:
    """The captions and images of the split, which evaluations need."""
    originals = read_originals(study)
    captions, images = zip(*originals, strict=True)
    return lists_files("original", positives_of_queries(originals, images, captions))


def _describe_progress(study: StudyFile, answers: list[Answer]) -> str:
    with study.reading() as connection:
        (units,) = connection.execute("SELECT count(*) FROM units WHERE NOT test").fetchone()
        (complete,) = connection.execute(
            "SELECT count(*) FROM units WHERE NOT test AND done >= ?",
            (study.settings.raters_per_item,),
        ).fetchone()
    raters = len({answer.rater for answer in answers})
    return (
        f"{len(answers):,} answers of {raters} rater(s); {complete:,} of {units:,} units have all "
        f"their raters.{_describe_waiting(study)}"
    )


def _describe_waiting(study: StudyFile) -> str:
    """A sentence on the units that wait for a decision, or ""."""
    waiting = [f"{doubt.unit}:{doubt.rater}" for doubt in find_doubts(study)]
    if not waiting:
        return ""
    more = f" and {len(waiting) - _SHOWN:,} more" if len(waiting) > _SHOWN else ""
    return (
        f" {len(waiting):,} unit(s) wait for a decision and do not count yet: "
        f"{', '.join(waiting[:_SHOWN])}{more}; `python -m xmodal annotate review "
        f"--study={study.path}` shows them."
    )


def _tabulate_lists(lists: dict[str, dict[int, list[int]]]) -> Rows:
    names = {"i2t": "captions of an image", "t2i": "images of a caption"}
    rows = []
    for direction, of_query in lists.items():
        positives = sum(map(len, of_query.values()))
        mean = f"{positives / len(of_query):.2f}" if of_query else ""
        rows.append([names[direction], f"{len(of_query):,}", f"{positives:,}", mean])
    return [["positives", "queries", "number", "per query"], *rows]
