"""Rules that select queries, and their page, against sorted lists of all scores."""

import io

import numpy as np
import PIL.Image
import pytest

from tests.evals.evaluators.random_vectors import MODALITIES, make_split
from tests.evals.tiny_split import TinySplit, rated
from xmodal.evals import Embeddings, evaluate_source, make_evaluator, read_options

DIRECTIONS = {"i2t": ("image", "text"), "t2i": ("text", "image")}
DIRECTIONS |= {"t2t": ("text", "text"), "i2i": ("image", "image")}
ARROWS = {"i2t": "image to text", "t2i": "text to image"}
ARROWS |= {"t2t": "text to text", "i2i": "image to image"}


class WithPictures(TinySplit):
    has_pictures = True

    def pictures(self, rows):
        return [make_picture(self.image_ids[row]) for row in rows]


def make_picture(number):
    file = io.BytesIO()
    PIL.Image.new("RGB", (48, 32), (int(number) % 251, 90, 160)).save(file, "PNG")
    return file.getvalue()


def make_case(**fields):
    """A split with ratings, and two models with integer scores, some of which tie."""
    plain = make_split(17, captions=3, seed=3)
    generator = np.random.default_rng(4)
    image, text = plain.image_ids.tolist(), plain.caption_ids.tolist()

    def rate(left, right, count):
        pairs = {tuple(generator.permutation(left)[:1]) + tuple(generator.permutation(right)[:1])
                 for _ in range(count)}  # fmt: skip
        return rated([(a, b, round(5 * generator.random(), 1)) for a, b in sorted(pairs) if a != b])

    ratings = {"sts": rate(text, text, 80), "sis": rate(image, image, 40)}
    ratings["sits"] = rate(text, image, 90)
    sis = ratings["sis"]  # Rated in both orders, as many pairs of Crisscrossed Captions.
    ratings["sis"] = {
        "left_ids": np.concatenate([sis["left_ids"], sis["right_ids"]]),
        "right_ids": np.concatenate([sis["right_ids"], sis["left_ids"]]),
        "scores": np.concatenate([sis["scores"], 5 - sis["scores"]]),
    }
    split = WithPictures(
        image_ids=plain.image_ids,
        caption_ids=plain.caption_ids,
        caption_image_ids=plain.caption_image_ids,
        ratings=ratings,
        **fields,
    )
    images = generator.integers(-2, 3, (17, 3)).astype(np.float32)
    captions = np.repeat(images, 3, axis=0) + generator.integers(-1, 2, (51, 3))
    source, other = (
        Embeddings("here", split.image_ids, images, split.caption_ids, np.float32(x), "dot")
        for x in (captions, captions + generator.integers(-1, 2, (51, 3)))
    )
    return split, source, other


def evaluate(split, source, count=0, other=None):
    (options,) = read_options({"shapes": {"type": "benchmarks", "bootstrap_samples": 20}}).values()
    evaluator = make_evaluator("shapes", options, split, MODALITIES)
    found = evaluate_source(evaluator, source, name="m", split=split, examples=count, other=other)
    return found, evaluator


def slow_lists(split, source):
    """(direction, query id) -> [(item id, score)], most similar first, in plain Python."""
    vectors = {
        "image": dict(zip(split.image_ids.tolist(), source.images, strict=True)),
        "text": dict(zip(split.caption_ids.tolist(), source.captions, strict=True)),
    }
    return {
        (direction, query): sorted(
            (
                (i, float(vector @ x))
                for i, x in vectors[item].items()
                if (modality, query) != (item, i)
            ),
            key=lambda pair: -pair[1],
        )
        for direction, (modality, item) in DIRECTIONS.items()
        for query, vector in vectors[modality].items()
    }


def slow_positives(split, benchmark):
    """(direction, query id) -> ids."""
    found = {}

    def add(direction, query, item):
        found.setdefault((direction, query), set()).add(item)

    owner = dict(zip(split.caption_ids.tolist(), split.caption_image_ids.tolist(), strict=True))
    for a, image in owner.items():
        add("i2t", image, a)
        add("t2i", a, image)
        for b, other in owner.items():
            if a != b and image == other:
                add("t2t", a, b)
    thresholds = {"sts": ("t2t", 3), "sis": ("i2i", 2.5), "sits": ("t2i", 3)}
    for name, (direction, least) in thresholds.items() if benchmark == "shapes" else ():
        rows = split.ratings[name]
        columns = (rows[key].tolist() for key in ("left_ids", "right_ids", "scores"))
        for a, b, score in zip(*columns, strict=True):
            if score >= least:
                add(direction, a, b)
                add(direction[::-1], b, a)
    return found


def slow_ranks(lists, positives):
    """(direction, query id) -> rank of the best positive from 1, and whether another item ties."""
    found = {}
    for (direction, query), own in positives.items():
        ranked = lists[direction, query]
        rank = min(n for n, (item, _) in enumerate(ranked, 1) if item in own)
        score = ranked[rank - 1][1]
        tied = any(x == score and item not in own for item, x in ranked)
        found[direction, query] = rank, tied
    return found


def picked(page):
    """Title of a group -> (query id, rank) of its sections."""
    found = {}
    for group in page.groups:
        words = [section.title.replace(",", "").split() for section in group.sections]
        found[group.title] = [(int(w[1].rstrip(":")), int(w[3])) for w in words]
    return found


def test_rules_pick_by_their_sentences():
    split, source, other = make_case()
    before = evaluate(split, other)[0].stored
    page = evaluate(split, source, 1000, before)[0].page
    lists = slow_lists(split, source)
    wide, own = (slow_ranks(lists, slow_positives(split, b)) for b in ("shapes", "shapes_own"))
    old = slow_ranks(slow_lists(split, other), slow_positives(split, "shapes"))
    expected = {}
    for direction, arrow in ARROWS.items():
        of_direction = {query: rank for (name, query), rank in wide.items() if name == direction}
        worst = [(q, rank) for q, (rank, _) in of_direction.items() if rank > 1]
        worst = sorted(worst, key=lambda pair: (-pair[1], pair[0]))
        expected[f"Worst rank: {arrow}, shapes"] = worst
        ratios = {q: np.log(rank / old[direction, q][0]) for q, (rank, _) in of_direction.items()}
        changed = sorted((q for q in ratios if ratios[q]), key=lambda q: (-abs(ratios[q]), q))
        expected[f"Changed: {arrow}, shapes"] = [(q, of_direction[q][0]) for q in changed]
        narrow = {query: rank for (name, query), (rank, _) in own.items() if name == direction}
        disputed = [(q, rank) for q, rank in narrow.items() if rank > 1 and of_direction[q][0] == 1]
        disputed = sorted(disputed, key=lambda pair: (-pair[1], pair[0]))
        expected[f"Right by shapes, wrong by shapes_own: {arrow}"] = disputed
        tied = [(q, rank) for q, (rank, is_tied) in of_direction.items() if is_tied]
        expected[f"Tied: {arrow}, shapes"] = sorted(tied, key=lambda pair: (pair[1], pair[0]))
    expected = {title: queries for title, queries in expected.items() if queries}
    found = picked(page)
    # Equal ratios of ranks may differ in the last bit.
    assert {t: sorted(q) for t, q in found.items()} == {t: sorted(q) for t, q in expected.items()}
    assert {t: q for t, q in found.items() if "Changed" not in t} == {
        t: q for t, q in expected.items() if "Changed" not in t
    }
    assert len(expected) >= 12
    few = picked(evaluate(split, source, 2, before)[0].page)
    assert few == {title: queries[:2] for title, queries in found.items()}


def test_items_of_a_section():
    split, source, _ = make_case()
    page = evaluate(split, source, 3)[0].page
    lists = slow_lists(split, source)
    directions = {arrow: direction for direction, arrow in ARROWS.items()}
    texts = dict(zip(split.caption_ids.tolist(), split.caption_texts, strict=True))
    owner = dict(zip(split.caption_ids.tolist(), split.caption_image_ids.tolist(), strict=True))
    ratings = {}
    for name, rows in split.ratings.items():
        for a, b, score in zip(rows["left_ids"], rows["right_ids"], rows["scores"], strict=True):
            for pair in ((int(a), int(b)), (int(b), int(a))):
                ratings.setdefault((*pair, name), []).append(score)
    rated_items, twice = 0, False
    for group in page.groups:
        arrow, _, benchmark = group.title.split(": ")[1].partition(", ")
        direction, benchmark = directions[arrow], benchmark or "shapes_own"
        for section in group.sections:
            query = int(section.title.split()[1].rstrip(":"))
            positives = slow_positives(split, benchmark)[direction, query]
            ranked = lists[direction, query]
            _, *farther = section.rows
            expected = [(n, *ranked[n - 1]) for n in range(1, 6)]
            if farther:
                missed = [
                    (n, i, x) for n, (i, x) in enumerate(ranked, 1) if i in positives and n > 5
                ]
                assert f"{len(missed)} of {len(positives)}" in farther[0].title
                expected += missed[:5]
            items = [item for row in section.rows for item in row.items]
            for item, (rank, found, score) in zip(items, expected, strict=True):
                assert item.notes[:2] == [f"rank {rank}", f"{score:.4f}"]
                assert (benchmark in item.mark.removeprefix("positive of ").split(", ")) == (
                    found in positives
                )
                is_text = DIRECTIONS[direction][1] == "text"
                assert item.text == (texts[found] if is_text else "")
                assert item.picture == make_picture(owner[found] if is_text else found)
                name = {"i2t": "sits", "t2i": "sits", "t2t": "sts", "i2i": "sis"}[direction]
                rating = ratings.get((query, found, name), [])
                shown = [float(note.split()[1]) for note in item.notes if note.startswith("rated")]
                assert sorted(shown) == pytest.approx(sorted(rating), abs=0.006)
                rated_items += len(shown)
                twice |= len(shown) > 1
            assert (section.query.picture is None) == (direction == "t2i")
    assert rated_items > 5
    assert twice
