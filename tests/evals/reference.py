"""All numbers of the COCO benchmarks, computed slowly from the labels and the papers' texts.

One query at a time in plain Python, and without the package, except for the random draws of pairs,
which have to be the same. The results have the names used in `xmodal.evals.reports.summary`.
"""

import dataclasses
import warnings

import numpy as np
from scipy import stats

from xmodal.evals.labels.positives import Ragged
from xmodal.evals.reports.metrics import draw_pairs

RECALL_AT = (1, 5, 10)
MODALITIES = {"i2t": "IT", "t2i": "TI", "t2t": "TT", "i2i": "II"}  # query and gallery, I or T
THRESHOLDS = {"sts": 3.0, "sits": 3.0, "sis": 2.5}
RATED_SIDES = {"sts": "TT", "sis": "II", "sits": "TI"}


@dataclasses.dataclass
class Split:
    """The test split, or a part of it.

    Attributes:
      ids: I -> images, T -> captions, in gallery order.
      image_of: caption -> its image.
      lists: released list -> direction -> query -> positives, including those outside the split.
      ratings: rating -> rows (left, right, score).
      categories: image -> the categories that occur in it.
      fold_of: image or caption -> fold, by I or T.
    """

    ids: dict
    image_of: dict
    lists: dict
    ratings: dict
    categories: dict
    fold_of: dict


def split_of(labels):
    """The labels in plain Python."""
    images, captions = labels.image_ids.tolist(), labels.caption_ids.tolist()
    image_of = dict(zip(captions, labels.caption_image_ids.tolist(), strict=True))
    lists, ratings = {}, {}
    for name, directions in labels.lists.items():
        for direction, pairs in directions.items():
            found = lists.setdefault(name, {}).setdefault(direction, {})
            for query, item in zip(*(ids.tolist() for ids in pairs), strict=True):
                found.setdefault(query, []).append(item)
    for rating, rows in labels.ratings.items():
        columns = (rows[key].tolist() for key in ("left_ids", "right_ids", "scores"))
        ratings[rating] = list(zip(*columns, strict=True))
    shown = {i: set(np.flatnonzero(x)) for i, x in zip(images, labels.categories, strict=True)}
    fold_of = {"I": dict(zip(images, labels.folds.tolist(), strict=True))}
    fold_of["T"] = {caption: fold_of["I"][image] for caption, image in image_of.items()}
    return Split({"I": images, "T": captions}, image_of, lists, ratings, shown, fold_of)


# Positives of every query of a direction: dict of sets.


def own_positives(split, direction):
    siblings = {}
    for caption, image in split.image_of.items():
        siblings.setdefault(image, set()).add(caption)
    if direction == "i2t":
        return siblings
    if direction == "t2i":
        return {caption: {image} for caption, image in split.image_of.items()}
    if direction == "t2t":
        return {caption: siblings[image] - {caption} for caption, image in split.image_of.items()}
    return {}


def cxc_positives(split, direction):
    """Own pairs of any rating, and well rated pairs in either order."""
    positives = {query: set(items) for query, items in own_positives(split, direction).items()}
    rating = {"i2t": "sits", "t2i": "sits", "t2t": "sts", "i2i": "sis"}[direction]
    for left, right, score in split.ratings[rating]:
        if score >= THRESHOLDS[rating]:
            pairs = [(left, right)] if direction == "t2i" else [(right, left)]
            if direction in ("t2t", "i2i"):
                pairs = [(left, right), (right, left)]
            for query, item in pairs:
                positives.setdefault(query, set()).add(item)
    return positives


def listed_positives(split, direction, name):
    return {query: set(items) for query, items in split.lists[name][direction].items()}


def plausible_positives(split, direction, zeta):
    """Items whose images differ in at most zeta categories; nothing matches an empty image."""
    shown = split.categories
    labeled = [image for image in split.ids["I"] if shown[image]]
    matching = {a: {b for b in labeled if len(shown[a] ^ shown[b]) <= zeta} for a in labeled}
    if direction == "t2i":
        return {c: matching[image] for c, image in split.image_of.items() if image in matching}
    captions = own_positives(split, "i2t")
    return {
        image: set().union(*(captions[other] for other in others))
        for image, others in matching.items()
    }


# Rankings.


def rank_all(split, direction, matrix):
    """Query -> gallery by decreasing score, ties in order of position; without the query itself."""
    query_kind, item_kind = MODALITIES[direction]
    rankings = {}
    for query, row in zip(split.ids[query_kind], matrix, strict=True):
        order = np.argsort(-row, kind="stable")
        items = [split.ids[item_kind][j] for j in order]
        rankings[query] = [item for item in items if query_kind != item_kind or item != query]
    return rankings


def first_hit(ranking, positives):
    return next((i for i, item in enumerate(ranking) if item in positives), len(ranking))


# Metrics for one query.


def map_at_r(ranking, positives):
    r, total = len(positives), 0.0
    for place in range(1, r + 1):
        if place <= len(ranking) and ranking[place - 1] in positives:
            total += sum(item in positives for item in ranking[:place]) / place
    return 100.0 * total / r


def r_precision(ranking, positives, cap=None):
    r = len(positives) if cap is None else min(len(positives), cap)
    return 100.0 * sum(item in positives for item in ranking[:r]) / r


class Reference:
    """Results on all benchmarks for the scores of one model."""

    def __init__(self, split, scores, *, samples, seed):
        """Ranks everything once.

        Args:
          split: the split to evaluate on.
          scores: IT -> [N, M], TT -> [M, M], II -> [N, N]; or only IT.
          samples: number of samples for every correlation.
          seed: seed of the draws.
        """
        self.split, self.samples, self.seed = split, samples, seed
        self.position = {kind: {item: i for i, item in enumerate(split.ids[kind])} for kind in "IT"}
        self.matrices = {
            direction: scores[MODALITIES[direction]]
            for direction in ("i2t", "t2t", "i2i")
            if MODALITIES[direction] in scores
        }
        self.matrices["t2i"] = self.matrices["i2t"].T
        self.rankings = {
            direction: rank_all(split, direction, matrix)
            for direction, matrix in self.matrices.items()
        }
        self.scores = scores
        self.numbers = {}
        self.correlations = {}
        for benchmark, positives in {
            "coco5k": own_positives,
            "cxc": cxc_positives,
            "cxc_sits_only": lambda split, direction: listed_positives(split, direction, "cxc"),
        }.items():
            directions = ("i2t", "t2i") if benchmark == "cxc_sits_only" else tuple(self.matrices)
            for direction in directions:
                self._recalls(benchmark, direction, positives(split, direction))
        for direction in ("i2t", "t2i"):
            self._recalls("coco1k", direction, own_positives(split, direction), split.fold_of)
            self._eccv(direction)
            self._pmrp("pmrp", direction, [2], cap=50)
            self._pmrp("pmrp_zeta0", direction, [0], cap=50)
            self._pmrp("pmrp_pcme", direction, [0, 1, 2], only_labeled=True)
            self._pmrp(
                "pmrp_pcme_1k", direction, [0, 1, 2], only_labeled=True, fold_of=split.fold_of
            )
        self._means()
        for rating in RATED_SIDES:
            self._correlation(rating)

    def _recalls(self, benchmark, direction, positives, fold_of=None, at=RECALL_AT):
        if not positives:
            return
        ranks, tied, sizes = [], 0, set()
        for query in self.split.ids[MODALITIES[direction][0]]:
            if query not in positives:
                continue
            ranking = self._in_fold(direction, query, fold_of)
            sizes.add(len(ranking))
            ranks.append(first_hit(ranking, positives[query]))
            tied += self._is_tied(direction, query, ranking, positives[query])
        for k in at:
            self.numbers[f"{benchmark}/{direction}/recall@{k}"] = 100.0 * np.mean(
                [r < k for r in ranks]
            )
        if benchmark not in ("coco1k", "eccv"):
            middle = sorted(ranks)
            middle = (middle[(len(ranks) - 1) // 2] + middle[len(ranks) // 2]) / 2
            self.numbers[f"{benchmark}/{direction}/median_rank"] = int(middle) + 1
        self._counts(benchmark, direction, len(ranks), tied, max(sizes))

    def _in_fold(self, direction, query, fold_of):
        """The ranking of a query among the items of its fold."""
        query_kind, item_kind = MODALITIES[direction]
        ranking = self.rankings[direction][query]
        if fold_of is None:
            return ranking
        return [i for i in ranking if fold_of[item_kind][i] == fold_of[query_kind][query]]

    def _is_tied(self, direction, query, gallery, positives):
        """Whether another item of the gallery ties with the best positive."""
        query_kind, item_kind = MODALITIES[direction]
        row = self.matrices[direction][self.position[query_kind][query]]
        at = self.position[item_kind]
        score = {item: row[at[item]] for item in gallery}
        found = [score[item] for item in positives if item in score]
        best = max(found, default=None)
        return any(score[item] == best for item in gallery if item not in positives)

    def _cuts_a_tie(self, direction, query, ranking, r):
        """Whether the item after the first R ties with the last of them."""
        query_kind, item_kind = MODALITIES[direction]
        row = self.matrices[direction][self.position[query_kind][query]]
        at = self.position[item_kind]
        return r < len(ranking) and row[at[ranking[r - 1]]] == row[at[ranking[r]]]

    def _eccv(self, direction):
        positives = listed_positives(self.split, direction, "eccv")
        self._recalls("eccv", direction, positives, at=(1,))
        for metric, function in {"map@r": map_at_r, "r_precision": r_precision}.items():
            values = [
                function(self.rankings[direction][query], positives[query]) for query in positives
            ]
            self.numbers[f"eccv/{direction}/{metric}"] = np.mean(values)

    def _pmrp(self, benchmark, direction, zetas, cap=None, only_labeled=False, fold_of=None):
        item_kind = MODALITIES[direction][1]
        gallery = set(self.split.ids[item_kind])
        if only_labeled:
            image_of = self.split.image_of if item_kind == "T" else {i: i for i in gallery}
            gallery = {item for item in gallery if self.split.categories[image_of[item]]}
        values, tied, sizes = [], set(), {len(gallery)} if fold_of is None else set()
        for zeta in zetas:
            positives = plausible_positives(self.split, direction, zeta)
            for query, own in positives.items():
                ranking = self._in_fold(direction, query, fold_of)
                ranking = [item for item in ranking if item in gallery]
                if fold_of is not None:
                    own = own.intersection(ranking)
                    sizes.add(len(ranking))
                values.append(r_precision(ranking, own, cap))
                if self._cuts_a_tie(direction, query, ranking, min(len(own), cap or len(own))):
                    tied.add(query)
        self.numbers[f"{benchmark}/{direction}"] = np.mean(values)
        self._counts(benchmark, direction, len(values) // len(zetas), len(tied), max(sizes))

    def _counts(self, benchmark, direction, queries, tied, gallery):
        skipped = len(self.split.ids[MODALITIES[direction][0]]) - queries
        self.numbers |= {
            f"{benchmark}/{direction}/queries": queries,
            f"{benchmark}/{direction}/skipped_queries": skipped,
            f"{benchmark}/{direction}/tied_queries": tied,
            f"{benchmark}/{direction}/gallery": gallery,
        }

    def _means(self):
        recalls = [f"recall@{k}" for k in RECALL_AT]
        benchmarks = dict.fromkeys(("coco5k", "coco1k", "cxc", "cxc_sits_only"), recalls)
        benchmarks["eccv"] = ["map@r", "r_precision", "recall@1"]
        found = self.numbers
        for benchmark, metrics in benchmarks.items():
            for metric in metrics:
                pair = found[f"{benchmark}/i2t/{metric}"], found[f"{benchmark}/t2i/{metric}"]
                found[f"{benchmark}/mean/{metric}"] = sum(pair) / 2
            if "recall@10" in metrics:
                found[f"{benchmark}/mean_recall@10"] = found[f"{benchmark}/mean/recall@10"]
                means = (found[f"{benchmark}/mean/{metric}"] for metric in recalls)
                found[f"{benchmark}/rsum"] = 2 * sum(means)
        for benchmark in ("pmrp", "pmrp_zeta0", "pmrp_pcme", "pmrp_pcme_1k"):
            found[f"{benchmark}/mean"] = (found[f"{benchmark}/i2t"] + found[f"{benchmark}/t2i"]) / 2

    def _correlation(self, rating):
        """Half of the queries, one rated pair each; for SITS, queries are images."""
        left_kind, right_kind = RATED_SIDES[rating]
        if rating == "sits":
            matrix = self.scores["IT"].T
        elif left_kind + right_kind in self.scores:
            matrix = self.scores[left_kind + right_kind]
        else:
            return
        rows = self.split.ratings[rating]
        ends = [1] if rating == "sits" else [0, 1]
        pairs_of = {}
        for pair, row in enumerate(rows):
            for end in ends:
                pairs_of.setdefault(row[end], []).append(pair)
        kind = right_kind
        lists = [pairs_of[item] for item in self.split.ids[kind] if item in pairs_of]
        pairs = Ragged(np.cumsum([0, *map(len, lists)]), np.concatenate(lists))
        drawn = draw_pairs(pairs, samples=self.samples, seed=self.seed)
        left, right = self.position[left_kind], self.position[right_kind]
        model = np.array([matrix[left[a], right[b]] for a, b, _ in rows])
        human = np.array([score for _, _, score in rows])
        with warnings.catch_warnings(action="ignore", category=stats.ConstantInputWarning):
            samples = [stats.spearmanr(model[pairs], human[pairs]).statistic for pairs in drawn]
        self.correlations[rating] = samples = np.array(samples)
        defined = 100.0 * samples[~np.isnan(samples)]
        self.numbers |= {
            f"cxc/{rating}/spearman": np.mean(defined) if len(defined) else np.nan,
            f"cxc/{rating}/spearman_std": np.std(defined) if len(defined) else np.nan,
            f"cxc/{rating}/pairs": len(rows),
            f"cxc/{rating}/pairs_per_sample": len(lists) // 2,
        }
