"""Positives, and who proposed them, from the answers of studies of the kind `eccv`."""

import json
import pathlib
from collections.abc import Collection, Iterable, Mapping, Sequence

from data_prep.cxc.cxc_files import THRESHOLDS
from data_prep.eccv_labels.label_files import ENDS, read_mturk
from data_prep.reading.csv_files import read_csv
from xmodal.apps.annotate.answers import Answer, group, read_answers
from xmodal.apps.annotate.questions import POSITIVE
from xmodal.apps.annotate.study_file import Proposal, StudyFile, StudySettings
from xmodal.core.config import lookup
from xmodal.core.errors import UserError
from xmodal.core.files import csv_text
from xmodal.core.text_table import Rows

Pair = tuple[int, int]
"""A caption and an image."""
Lists = dict[int, list[int]]


def label_matches(
    answers: Sequence[Answer],
    proposals: Sequence[Proposal],
    originals: Collection[Pair],
    settings: StudySettings,
    *,
    add: str | None = None,
    without: str | None = None,
    human_only: bool = False,
    rule: str = "majority",
    strict: bool = False,
) -> tuple[dict[str, str], list[str | Rows]]:
    """Returns the files of the labels by name, and the parts of a report.

    Args:
      answers: answers that count.
      proposals: what the models propose.
      originals: captions with their own images.
      settings: the queries.
      add: folder of annotations whose CxC positives for the same queries are added.
      without: text file of caption ids that are left out.
      human_only: leave out original pairs that no rater saw.
      rule: see `judge`.
      strict: see `judge`.
    """
    judged = judge(answers, rule, strict=strict)
    pairs = {pair for pair, positive in judged.items() if positive}
    pairs |= set() if human_only else set(originals) - judged.keys()
    pairs |= read_added(add, settings.split) if add else set()
    left_out = _read_left_out(without) if without else set()
    queries = settings.image_queries, settings.caption_queries
    kept = (pair for pair in pairs if pair[0] not in left_out)
    lists = positives_of_queries(kept, *queries)
    files = format_lists("eccv", lists)
    files |= format_lists("annotated", positives_of_queries(judged, *queries))
    states = {pair: int(positive) for pair, positive in judged.items()}  # Not of pairs not asked.
    rows = ((*each, states.get(each.pair, "")) for each in proposals)
    files["proposals.csv"] = csv_text([(*Proposal._fields, "positive"), *rows])
    wrong = dict.fromkeys(answer.left for answer in answers if answer.wrong_caption)
    files["wrong_captions.txt"] = "".join(f"{caption}\n" for caption in wrong)
    told = f"{len(wrong):,} caption(s) that raters call wrong: wrong_captions.txt."
    return files, [_tabulate_lists(lists), _tabulate_yield(proposals, judged), told]


def judge(
    answers: Iterable[Answer], rule: str = "majority", *, strict: bool = False
) -> dict[Pair, bool]:
    """Returns every judged pair, and whether it is positive.

    Args:
      answers: answers that count.
      rule: "majority" of the answers of a pair, or "all".
      strict: whether only the answer "yes, all of it" makes a pair positive.
    """
    accepted = POSITIVE[:1] if strict else POSITIVE
    votes = group(answers, lambda answer: (answer.left, answer.right))
    judged = {}
    for pair, own in votes.items():
        least = len(own) if rule == "all" else len(own) // 2 + 1
        judged[pair] = sum(answer.value in accepted for answer in own) >= least
    return judged


def read_judged(path: str) -> set[Pair]:
    """Returns the pairs that are already judged.

    Args:
      path: a study, the folder or the `answers.csv` of its labels, or the `mturk_parsed.csv` of
        ECCV Caption.
    """
    place = pathlib.Path(path)
    place = place / "answers.csv" if place.is_dir() else place
    if place.suffix != ".csv":
        return {(each.left, each.right) for each in read_answers(StudyFile(place)) if each.counts}
    if place.name.startswith("mturk"):
        return set(read_mturk(place))
    rows = (row for _, row in read_csv(place, columns=("left", "right", "counts")))
    return {(int(row["left"]), int(row["right"])) for row in rows if row["counts"] == "1"}


def positives_of_queries(
    pairs: Iterable[Pair], image_queries: Iterable[int], caption_queries: Iterable[int]
) -> dict[str, Lists]:
    """Returns direction, `i2t` and `t2i`, -> query -> sorted ids, for queries with positives.

    Args:
      pairs: positive ones.
      image_queries: ids.
      caption_queries: ids.
    """
    found: dict[str, Lists] = {"i2t": {}, "t2i": {}}
    images, captions = set(image_queries), set(caption_queries)
    for caption, image in sorted(set(pairs)):
        if image in images:
            found["i2t"].setdefault(image, []).append(caption)
        if caption in captions:
            found["t2i"].setdefault(caption, []).append(image)
    return found


def format_lists(name: str, lists: Mapping[str, Lists]) -> dict[str, str]:
    """Returns file name -> content, in the format of the released JSON files."""
    return {f"{name}_{ENDS[direction]}.json": json.dumps(each) for direction, each in lists.items()}


def _tabulate_lists(lists: Mapping[str, Lists]) -> Rows:
    """Returns a table with the numbers of positives."""
    names = {"i2t": "captions of an image", "t2i": "images of a caption"}
    rows = [["positives", "queries", "number", "per query"]]
    for direction, of_query in lists.items():
        positives = sum(map(len, of_query.values()))
        mean = f"{positives / len(of_query):.2f}" if of_query else ""
        rows.append([names[direction], f"{len(of_query):,}", f"{positives:,}", mean])
    return rows


def choose_proposals(
    proposals: Iterable[Proposal], models: Collection[str] | None
) -> list[Proposal]:
    """Returns each proposal of some models once; None for all models."""
    found = list(dict.fromkeys(proposals))
    for model in models or ():
        lookup("--from_models", model, {each.model: None for each in found})
    return [each for each in found if models is None or each.model in models]


def describe_proposals(proposals: Iterable[Proposal]) -> dict[Pair, str]:
    """Returns pair -> who proposed it, such as "clip i2t 1; vsrn t2i 3"."""
    found: dict[Pair, list[str]] = {}
    for each in proposals:
        found.setdefault(each.pair, []).append(f"{each.model} {each.direction} {each.rank}")
    return {pair: "; ".join(names) for pair, names in found.items()}


def _tabulate_yield(proposals: Sequence[Proposal], judged: Mapping[Pair, bool]) -> Rows:
    """Returns a table of what every model contributes, and each rank of its lists.

    A pair that a model proposes at two ranks, one per direction, counts at both, and once in the
    row of the model.
    """
    rows = [["annotator", "rank", "proposed", "judged", "accepted", "by no other model"]]
    models: dict[Pair, set[str]] = {}
    for each in proposals:
        models.setdefault(each.pair, set()).add(each.model)
    for model in dict.fromkeys(each.model for each in proposals):
        own = [each for each in proposals if each.model == model]
        for rank in (None, *sorted({each.rank for each in own})):
            pairs = {each.pair for each in own if rank in (None, each.rank)}
            accepted = [pair for pair in pairs if judged.get(pair)]
            alone = sum(models[pair] == {model} for pair in accepted)
            counts = len(pairs), len(pairs & judged.keys()), len(accepted), alone
            rows.append([model, f"{rank or 'all'}", *(f"{count:,}" for count in counts)])
    return rows


def read_added(folder: str, split: str) -> set[Pair]:
    """Returns the CxC positives of a folder of annotations: its lists, else its ratings from 3."""
    from xmodal.evals.labels.annotations import read_annotations

    labels = read_annotations(folder, split)
    if lists := labels.lists.get("cxc"):
        pairs: set[Pair] = set()
        for direction, (queries, items) in lists.items():
            captions, images = (items, queries) if direction == "i2t" else (queries, items)
            pairs.update(zip(captions.tolist(), images.tolist(), strict=True))
        return pairs
    rated = labels.ratings["sits"]
    good = rated["scores"] >= THRESHOLDS["sits"]
    ids = (rated[side][good].tolist() for side in ("left_ids", "right_ids"))
    return set(zip(*ids, strict=True))


def _read_left_out(path: str) -> set[int]:
    """Returns the caption ids of a text file, one per line."""
    try:
        return set(map(int, pathlib.Path(path).read_text(encoding="utf-8-sig").split()))
    except (OSError, ValueError) as error:
        raise UserError(f"--without={path} is not a list of caption ids: {error}.") from error
