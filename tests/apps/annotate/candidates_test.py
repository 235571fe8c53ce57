"""Candidates from models against slow loops, and the sets and examples drawn from them."""

import collections
import json
import types

import numpy as np
import pytest

from xmodal.apps.annotate.candidates import DEPTH, collect, draw_sets
from xmodal.apps.annotate.studies import draw_preferences
from xmodal.apps.model_files import best_items, read_source
from xmodal.core.errors import UserError

NAMES = ["Visible", "Story", "Meta"]


def make_split(images, captions):
    """Images with ids that are not sorted, each with as many captions."""
    image_ids = np.random.default_rng(0).permutation(np.arange(10, 10 + images, dtype=np.int32))
    return types.SimpleNamespace(
        image_ids=image_ids,
        caption_ids=np.arange(901, 901 + captions, dtype=np.int32)[::-1],
        caption_image_ids=image_ids.repeat(captions // images),
        caption_rows=np.arange(images).repeat(captions // images),
        labels={"relations": np.eye(images, 3, dtype=np.uint8)},
        label_names={"relations": NAMES},
    )


SPLIT = make_split(7, 21)


@pytest.fixture
def models(tmp_path):
    """Files of two models, with ids in another order and images of other splits."""
    paths = [str(tmp_path / f"{seed}.npz") for seed in range(2)]
    for seed, path in enumerate(paths):
        rng = np.random.default_rng(seed)
        images, captions = (
            rng.permutation([*SPLIT.image_ids, 98, 99]),
            rng.permutation(SPLIT.caption_ids),
        )
        np.savez(
            path,
            image_ids=images,
            image_embeddings=rng.normal(size=(len(images), 5)).astype(np.float32),
            caption_ids=captions,
            caption_embeddings=rng.normal(size=(len(captions), 5)).astype(np.float32),
            similarity="dot",
        )
    return paths


def slow_lists(path):
    """Direction -> query -> all ids of the split, best first, computed by loops over pairs."""
    saved = np.load(path)
    score = {
        (int(i), int(c)): float(np.dot(x, y))
        for i, x in zip(saved["image_ids"], saved["image_embeddings"], strict=True)
        for c, y in zip(saved["caption_ids"], saved["caption_embeddings"], strict=True)
    }
    images, captions = SPLIT.image_ids.tolist(), SPLIT.caption_ids.tolist()
    return {
        "i2t": {i: sorted(captions, key=lambda c: -score[i, c]) for i in images},
        "t2i": {c: sorted(images, key=lambda i: -score[i, c]) for c in captions},
    }


def test_best_items_are_those_of_a_slow_loop(models):
    expected, source = slow_lists(models[0]), read_source(models[0], None)
    for direction, queries in (("i2t", SPLIT.image_ids[::2]), ("t2i", SPLIT.caption_ids[1::3])):
        for depth in (1, 4, 100):
            found = best_items(source, SPLIT, direction, queries, depth)
            lists = [expected[direction][query][:depth] for query in queries.tolist()]
            assert [items.tolist() for items in found] == lists


def test_sets_of_candidates_with_two_golden_pairs(tmp_path):
    split, rng = make_split(60, 300), np.random.default_rng(1)
    queries = {"i2t": split.image_ids[:20], "t2i": split.caption_ids[:30]}
    galleries = {"i2t": split.caption_ids, "t2i": split.image_ids}
    near, models = set(), {}
    for number in range(2):
        lists = {name: {str(each): rng.permutation(galleries[name])[:30].tolist() for each in asked}
                 for name, asked in queries.items()}  # fmt: skip
        near |= {(i, int(query)) for query, items in lists["i2t"].items() for i in items[:DEPTH]}
        near |= {(int(query), i) for query, items in lists["t2i"].items() for i in items[:DEPTH]}
        (tmp_path / f"{number}.json").write_text(json.dumps(lists))
        models[f"model{number}"] = read_source(str(tmp_path / f"{number}.json"), None)
    pool = collect(models, split, queries, top=5)
    test, *sets = draw_sets(pool, split, 18, 7, np.random.default_rng(0))
    assert [unit.test for unit in (test, *sets)] == [True, *[False] * len(sets)]
    assert collections.Counter(q.golden for q in test.questions) == {"yes": 4, "no": 3}
    asked = [(q.left, q.right) for unit in sets for q in unit.questions if q.golden is None]
    assert sorted(asked) == sorted(pool.pairs)  # each once
    sizes = {len(unit.questions) for unit in sets}
    assert (len(sets), max(sizes) <= 20, max(sizes) - min(sizes) <= 1) == (
        -(-len(pool.pairs) // 18), True, True)  # fmt: skip
    assert all(sorted(q.golden for q in u.questions if q.golden) == ["no", "yes"] for u in sets)
    own = set(zip(split.caption_ids.tolist(), split.caption_image_ids.tolist(), strict=True))
    right, wrong = ([(q.left, q.right) for unit in (test, *sets) for q in unit.questions
                     if q.golden == answer] for answer in ("yes", "no"))  # fmt: skip
    assert set(right) <= own
    assert not set(wrong) & (near | own)
    assert len(set(right)) == len(right)
    assert not set(right) & set(pool.pairs)  # there are enough others


def test_preferences_are_asked_where_the_pictures_of_two_models_differ(models):
    first, second = (slow_lists(path)["t2i"] for path in models)
    # The third model is the first again: two pictures are asked about once.
    sources = {name: read_source(models[name == "b"], None) for name in "abc"}
    drawn = draw_preferences(sources, SPLIT, 1000, "relations", np.random.default_rng(3))
    units, groups, proposals = drawn
    asked = [(q.about, q.left, q.right) for unit in units for q in unit.questions]
    pictures = [(c, first[c][0], second[c][0]) for c in first]
    assert sorted(asked) == sorted((c, *pair) for c, *pair in pictures if pair[0] != pair[1])
    assert len(units) < len(first)
    found = {(each.model, each.caption): each.image for each in proposals}
    assert found == {
        (name, c): own[c][0] for name, own in zip("abc", (first, second, first), strict=True)
        for c in own
    }  # fmt: skip
    owner = dict(zip(SPLIT.caption_ids.tolist(), SPLIT.caption_rows.tolist(), strict=True))
    assert groups == {str(c): NAMES[owner[c] : owner[c] + 1] for c in first}
    few, none, proposals = draw_preferences(sources, SPLIT, 4, None, np.random.default_rng(3))
    assert (len(few) <= 4, none, len(proposals)) == (True, {}, 12)


def test_pairs_that_are_judged_are_proposed_and_not_asked(models):
    queries = {"i2t": SPLIT.image_ids[:2], "t2i": SPLIT.caption_ids[:3]}
    sources = {name: read_source(path, None) for name, path in zip("ab", models, strict=True)}
    pool = collect(sources, SPLIT, queries, 2)
    expected = [
        (*((query, item) if direction == "t2i" else (item, query)), name, direction, rank)
        for name, path in zip("ab", models, strict=True)
        for direction, lists in slow_lists(path).items()
        for query in queries[direction].tolist()
        for rank, item in enumerate(lists[query][:2], 1)
    ]
    assert sorted(pool.proposals) == sorted(expected)
    judged = {*pool.pairs[:3], (901, 99)}
    later = collect(sources, SPLIT, queries, 2, judged)
    assert (later.pairs, later.proposals) == (pool.pairs[3:], pool.proposals)
    assert (901, 99) in later.near  # No golden pair with the answer no.
    with pytest.raises(UserError, match=f"All {len(pool.pairs)} pairs"):
        collect(sources, SPLIT, queries, 2, pool.pairs)
