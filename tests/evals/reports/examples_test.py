"""Rules that select queries, and their page, against sorted lists of all scores."""

import dataclasses
import io
import itertools

import numpy as np
import PIL.Image

from tests.evals.evaluators.random_vectors import MODALITIES, make_split, options_of
from tests.evals.tiny_split import TinySplit, rated
from xmodal.evals import Embeddings, evaluate_source, make_evaluator

DIRECTIONS = {
    "image to text": ("i2t", "image", "text"),
    "text to image": ("t2i", "text", "image"),
    "text to text": ("t2t", "text", "text"),
    "image to image": ("i2i", "image", "image"),
}


class WithPictures(TinySplit):
    has_pictures = True

    def pictures(self, rows):
        return [make_picture(self.image_ids[row]) for row in rows]


def make_picture(number):
    file = io.BytesIO()
    PIL.Image.new("RGB", (48, 32), (int(number) % 251, 90, 160)).save(file, "PNG")
    return file.getvalue()


def make_case():
    """A split with ratings, and two models with integer scores, some of which tie."""
    plain = make_split(17, captions=3, seed=3)
    generator = np.random.default_rng(4)
    image, text = plain.image_ids, plain.caption_ids

    def rate(left, right, count):
        pairs = {(generator.choice(left), generator.choice(right)) for _ in range(count)}
        return [(a, b, round(5 * generator.random(), 1)) for a, b in sorted(pairs) if a != b]

    sis = rate(image, image, 40)  # In both orders, as many pairs of Crisscrossed Captions.
    ratings = {"sts": rate(text, text, 80), "sits": rate(text, image, 90)}
    ratings["sis"] = sis + [(b, a, 5 - score) for a, b, score in sis]
    fields = {each.name: getattr(plain, each.name) for each in dataclasses.fields(plain)}
    fields["ratings"] = {name: rated(rows) for name, rows in ratings.items()}
    split = WithPictures(**fields)
    images = generator.integers(-2, 3, (17, 3)).astype(np.float32)
    captions = np.repeat(images, 3, axis=0) + generator.integers(-1, 2, (51, 3))
    source, other = (
        Embeddings("here", image, images, text, np.float32(x), "dot")
        for x in (captions, captions + generator.integers(-1, 2, (51, 3)))
    )
    return split, ratings, source, other


def evaluate(split, source, count=0, other=None):
    options = options_of(type="benchmarks", bootstrap_samples=20)
    evaluator = make_evaluator("shapes", options, split, MODALITIES)
    return evaluate_source(evaluator, source, name="m", examples=count, other=other)


def slow_lists(split, source):
    """(direction, query id) -> [(item id, score)], most similar first, in plain Python."""
    vectors = {
        "image": dict(zip(split.image_ids.tolist(), source.images, strict=True)),
        "text": dict(zip(split.caption_ids.tolist(), source.captions, strict=True)),
    }
    found = {}
    for direction, query_kind, item_kind in DIRECTIONS.values():
        for query, vector in vectors[query_kind].items():
            scores = {i: float(vector @ x) for i, x in vectors[item_kind].items()}
            if query_kind == item_kind:
                del scores[query]
            found[direction, query] = sorted(scores.items(), key=lambda pair: -pair[1])
    return found


def slow_positives(split, ratings):
    """(direction, query id) -> ids."""
    found = {}

    def add(direction, query, item):
        found.setdefault((direction, query), set()).add(item)

    owner = dict(zip(split.caption_ids.tolist(), split.caption_image_ids.tolist(), strict=True))
    for a, image in owner.items():
        add("i2t", image, a)
        add("t2i", a, image)
        for b in (b for b, other in owner.items() if a != b and image == other):
            add("t2t", a, b)
    thresholds = {"sts": ("t2t", 3), "sis": ("i2i", 2.5), "sits": ("t2i", 3)}
    for name, (direction, least) in thresholds.items():
        for a, b in ((a, b) for a, b, score in ratings[name] if np.float32(score) >= least):
            add(direction, a, b)
            add(direction[::-1], b, a)
    return found


def slow_ranks(lists, positives):
    """(direction, query id) -> rank of the best positive from 1, and whether another item ties."""
    found = {}
    for key, own in positives.items():
        rank = min(n for n, (item, _) in enumerate(lists[key], 1) if item in own)
        score = lists[key][rank - 1][1]
        found[key] = rank, any(x == score and item not in own for item, x in lists[key])
    return found


def picked(page):
    """Title of a group -> (query id, rank) of its sections."""
    found = {}
    for group in page.groups:
        words = [section.title.replace(",", "").split() for section in group.sections]
        found[group.title] = [(int(w[1].rstrip(":")), int(w[3])) for w in words]
    return found


def test_rules_pick_by_their_sentences():
    split, ratings, source, other = make_case()
    before = evaluate(split, other)
    found = picked(evaluate(split, source, 1000, before).page)
    lists = slow_lists(split, source)
    wide = slow_positives(split, ratings)
    old, wide = slow_ranks(slow_lists(split, other), wide), slow_ranks(lists, wide)
    expected, spaced = {}, {}
    for arrow, (direction, _, _) in DIRECTIONS.items():
        ranks = {query: rank for (name, query), rank in wide.items() if name == direction}
        worst = [(-rank, q) for q, (rank, _) in ranks.items() if rank > 1]
        expected[f"Worst rank: shapes, {arrow}"] = worst
        changes = {q: abs(np.log(rank / old[direction, q][0])) for q, (rank, _) in ranks.items()}
        changed = [(ranks[q][0], q) for q, change in changes.items() if change]
        expected[f"Changed: shapes, {arrow}"] = changed
        tied = [(rank, q) for q, (rank, is_tied) in ranks.items() if is_tied]
        expected[f"Tied: shapes, {arrow}"] = tied
        shown = [changes[q] for q, _ in found.get(f"Changed: shapes, {arrow}", ())]
        assert all(a > b - 1e-9 for a, b in itertools.pairwise(shown))
        if direction in ("i2t", "t2i"):
            ids = [sorted(ranks)[(2 * n + 1) * len(ranks) // 10] for n in range(5)]
            spaced[f"Evenly spaced: shapes, {arrow}"] = [(query, ranks[query][0]) for query in ids]
    expected = {t: [(q, abs(key)) for key, q in sorted(x)] for t, x in expected.items() if x}
    expected |= spaced
    for title, queries in expected.items():
        in_order = sorted(found[title]) if "Changed" in title else found[title]
        assert in_order == (sorted(queries) if "Changed" in title else queries)
    assert found.keys() == expected.keys()
    assert len(expected) >= 10


def test_items_of_a_section():
    split, ratings, source, _ = make_case()
    lists = slow_lists(split, source)
    texts = dict(zip(split.caption_ids.tolist(), split.caption_texts, strict=True))
    owner = dict(zip(split.caption_ids.tolist(), split.caption_image_ids.tolist(), strict=True))
    scores = {frozenset((a, b)): [] for rows in ratings.values() for a, b, _ in rows}
    for a, b, score in (row for rows in ratings.values() for row in rows):
        scores[frozenset((a, b))].append(f"{score:.2f}")
    shown = []
    for group in evaluate(split, source, 3).page.groups:
        benchmark, _, arrow = group.title.split(": ")[1].partition(", ")
        direction, _, kind = DIRECTIONS[arrow]
        for section in group.sections:
            query = int(section.title.split()[1].rstrip(":"))
            positives = slow_positives(split, ratings)[direction, query]
            ranked = [(n, *pair) for n, pair in enumerate(lists[direction, query], 1)]
            missed = [each for each in ranked[5:] if each[1] in positives]
            if missed:
                assert f"{len(missed)} of {len(positives)}" in section.rows[1].title
            items = [item for row in section.rows for item in row.items]
            for item, (rank, found, score) in zip(items, ranked[:5] + missed[:5], strict=True):
                assert item.notes[:2] == [f"rank {rank}", f"{score:.4f}"]
                marked = item.mark.removeprefix("positive of ").split(", ")
                assert (benchmark in marked) == (found in positives)
                assert item.text == (texts[found] if kind == "text" else "")
                assert item.picture == make_picture(owner[found] if kind == "text" else found)
                human = [note.split()[1] for note in item.notes if note.startswith("rated")]
                assert sorted(human) == sorted(scores.get(frozenset((query, found)), []))
                shown.append(len(human))
            assert (section.query.picture is None) == (direction == "t2i")
    assert max(shown) > 1
