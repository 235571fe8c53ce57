"""Candidates from models against slow loops, and the sets and examples drawn from them."""

import collections
import json
import types

import numpy as np
import pytest

from xmodal.apps.annotate.candidates import best_items, read_source
from xmodal.apps.annotate.studies import (
    DEPTH,
    collect,
    draw_preferences,
    draw_sets,
)

IMAGES = np.array([40, 10, 30, 20, 70, 60, 55], np.int32)
CAPTIONS = np.arange(901, 922, dtype=np.int32)[::-1]
OWNERS = IMAGES.repeat(3)
SPLIT = types.SimpleNamespace(
    name="tiny",
    split="test",
    image_ids=IMAGES,
    caption_ids=CAPTIONS,
    caption_image_ids=OWNERS,
    caption_rows=np.arange(7).repeat(3),
    labels={"relations": np.eye(7, 3, dtype=np.uint8)},
    label_names={"relations": ["Visible", "Story", "Meta"]},
)


def write_embeddings(path, seed, extra=2):
    """Embeddings in a different order from the split's, with additional images."""
    rng = np.random.default_rng(seed)
    images = rng.permutation([*IMAGES, *range(1000, 1000 + extra)])
    captions = rng.permutation(CAPTIONS)
    np.savez(
        path,
        image_ids=images,
        image_embeddings=rng.normal(size=(len(images), 5)).astype(np.float32),
        caption_ids=captions,
        caption_embeddings=rng.normal(size=(len(captions), 5)).astype(np.float32),
        similarity="dot",
    )
    return str(path)


def slow_lists(path):
    """Task -> query -> all ids of the split, best first, computed by loops over pairs."""
    saved = np.load(path)
    score = {
        (int(i), int(c)): float(np.dot(x, y))
        for i, x in zip(saved["image_ids"], saved["image_embeddings"], strict=True)
        for c, y in zip(saved["caption_ids"], saved["caption_embeddings"], strict=True)
    }
    images, captions = IMAGES.tolist(), CAPTIONS.tolist()
    return {
        "i2t": {i: sorted(captions, key=lambda c: -score[i, c]) for i in images},
        "t2i": {c: sorted(images, key=lambda i: -score[i, c]) for c in captions},
    }


@pytest.mark.parametrize(("direction", "queries"), [("i2t", IMAGES[::2]), ("t2i", CAPTIONS[1::3])])
def test_best_items_are_those_of_a_slow_loop(tmp_path, direction, queries):
    path = write_embeddings(tmp_path / "model.npz", 0)
    expected = slow_lists(path)[direction]
    assert best_items(read_source(path, None), SPLIT, direction, queries[:0], 3) == []
    for depth in (1, 4, 100):
        found = best_items(read_source(path, None), SPLIT, direction, queries, depth)
        assert [items.tolist() for items in found] == [
            expected[query][:depth] for query in queries.tolist()
        ]


def random_split(images=60, captions=300):
    ids = np.arange(captions, dtype=np.int32)
    return types.SimpleNamespace(
        image_ids=np.arange(1, images + 1, dtype=np.int32),
        caption_ids=ids,
        caption_image_ids=(ids * images // captions + 1).astype(np.int32),
    )


def random_lists(path, split, queries, seed):
    rng = np.random.default_rng(seed)
    galleries = {"i2t": split.caption_ids, "t2i": split.image_ids}
    lists = {
        direction: {
            str(query): rng.permutation(galleries[direction])[:30].tolist() for query in asked
        }
        for direction, asked in queries.items()
    }
    path.write_text(json.dumps(lists))
    return lists


def test_sets_of_candidates_with_two_golden_pairs(tmp_path):
    split = random_split()
    queries = {"i2t": split.image_ids[:20], "t2i": split.caption_ids[:30]}
    lists = [random_lists(tmp_path / f"{n}.json", split, queries, n) for n in range(2)]
    models = [read_source(str(tmp_path / f"{n}.json"), None) for n in range(2)]
    pool = collect(models, split, queries, top=5)
    units = draw_sets(pool, split, 18, 7, np.random.default_rng(0))
    test, *sets = units
    assert [unit.test for unit in units] == [True, *[False] * len(sets)]
    assert collections.Counter(q.golden for q in test.questions) == {"yes": 4, "no": 3}
    asked = [(q.left, q.right) for unit in sets for q in unit.questions if q.golden is None]
    assert sorted(asked) == sorted(pool.pairs)  # each once
    assert len(sets) == -(-len(pool.pairs) // 18)
    sizes = {len(unit.questions) for unit in sets}
    assert max(sizes) <= 20
    assert max(sizes) - min(sizes) <= 1
    own = set(zip(split.caption_ids.tolist(), split.caption_image_ids.tolist(), strict=True))
    near = set()
    for each in lists:
        near |= {(i, int(query)) for query, items in each["i2t"].items() for i in items[:DEPTH]}
        near |= {(int(query), i) for query, items in each["t2i"].items() for i in items[:DEPTH]}
    golden = {
        answer: [(q.left, q.right) for unit in units for q in unit.questions if q.golden == answer]
        for answer in ("yes", "no")
    }
    assert all(sorted(q.golden for q in u.questions if q.golden) == ["no", "yes"] for u in sets)
    assert set(golden["yes"]) <= own
    assert not set(golden["no"]) & (near | own)
    assert len(set(golden["yes"])) == len(golden["yes"])
    assert not set(golden["yes"]) & set(pool.pairs)  # there are enough others


def test_preferences_are_about_captions_that_models_answer_differently(tmp_path):
    paths = [write_embeddings(tmp_path / f"{seed}.npz", seed) for seed in range(2)]
    first, second = (slow_lists(path)["t2i"] for path in paths)
    sources = [read_source(path, None) for path in paths]

    def draw(examples):
        return draw_preferences(sources, SPLIT, examples, "relations", np.random.default_rng(3))

    units, same = draw(1000)
    different = {c for c in first if first[c][0] != second[c][0]}
    asked = [unit.questions[0] for unit in units]
    assert {q.about for q in asked} == different
    assert len(different) + same == len(CAPTIONS)
    assert all((q.left, q.right) == (first[q.about][0], second[q.about][0]) for q in asked)
    owner = dict(zip(CAPTIONS.tolist(), np.arange(7).repeat(3).tolist(), strict=True))
    names = ["Visible", "Story", "Meta"]
    assert all(json.loads(q.note) == names[owner[q.about] : owner[q.about] + 1] for q in asked)
    assert len(draw(4)[0]) == 4
