import collections
import re

import numpy as np
import pytest

from data_prep.crisscrossed_shapes import graph_similarity, lexicon
from data_prep.crisscrossed_shapes.captions import describe
from data_prep.crisscrossed_shapes.scene_graph import full_content
from data_prep.crisscrossed_shapes.scenes import make_scenes

# Longest first, so that "five-pointed star" and "pale blue" are not read as "star" and "blue".
PHRASES = sorted(
    (
        (word, kind, value)
        for kind, table in {
            "shape": lexicon.NOUNS,
            "color": lexicon.COLORS,
            "size": lexicon.SIZES,
            "place": lexicon.PLACES,
            "pattern": lexicon.PATTERNS,
            "relation": lexicon.RELATIONS,
        }.items()
        for value, words in table.items()
        for word in words
    ),
    key=lambda row: -len(row[0]),
)
BACKDROPS = "|".join(lexicon.BACKDROPS)


@pytest.fixture(scope="module")
def described():
    scenes = make_scenes(1, {"train": 400})["train"]
    return [
        (scene, describe(scene, np.random.default_rng((2, n)))) for n, scene in enumerate(scenes)
    ]


def read(text):
    """The content of a caption, parsed from its words independently of the describer."""
    text = text.lower()
    found = collections.defaultdict(collections.Counter)
    colors = {w: c for c, words in lexicon.BACKGROUND_COLORS.items() for w in words}
    names = "|".join(sorted(colors, key=len, reverse=True))
    for color in re.findall(rf"\b({names}) (?:{BACKDROPS})\b", text):
        found["background"][colors[color]] += 1
    text = re.sub(rf"\b({names}) (?={BACKDROPS})", "", text)
    for phrase, kind, value in PHRASES:
        ending = "(?:e?s)?" if kind == "shape" else ""
        text, number = re.subn(rf"(?<![\w-]){re.escape(phrase)}{ending}(?![\w-])", " ", text)
        if number:
            found[kind][value] += number
    return found


def test_every_fact_of_a_caption_holds_in_its_scene(described):
    shown = graph_similarity.encode(
        [full_content(scene) for scene, group in described for _ in group]
    )
    said = graph_similarity.encode([caption.content for _, group in described for caption in group])
    assert (graph_similarity.weight(said) > 0).all()
    np.testing.assert_allclose(graph_similarity.fit(said, shown), 1)


def test_the_words_of_a_caption_say_what_its_content_says(described):
    for _, group in described:
        for caption in group:
            found, content = read(caption.text), caption.content
            for kind in ("shape", "color", "size"):
                stated = {getattr(item, kind) for item in content.items} - {""}
                assert set(found[kind]) - {""} == stated, (kind, caption)
            places = {(item.row, item.column) for item in content.items} - {("", "")}
            assert set(found["place"]) == places, caption
            assert set(found["pattern"]) == {content.background.pattern} - {""}, caption
            assert set(found["background"]) == {content.background.color} - {""}, caption
            assert sum(found["relation"].values()) == len(content.relations), caption
