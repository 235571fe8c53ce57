import itertools

from data_prep.crisscrossed_shapes import scene_graph
from data_prep.crisscrossed_shapes.scene_graph import Background, Content, Scene, SceneItem
from data_prep.crisscrossed_shapes.scenes import make_scenes

SIZES = {"train": 700, "validation": 150, "test": 150}


def test_no_scene_occurs_twice_in_one_split_or_in_two():
    splits = make_scenes(3, SIZES)
    assert {split: len(scenes) for split, scenes in splits.items()} == SIZES
    everything = [scene for scenes in splits.values() for scene in scenes]
    assert len(set(everything)) == sum(SIZES.values())


def test_scenes_are_complete_sorted_and_visible():
    scenes = make_scenes(4, SIZES)["train"]
    for scene in scenes:
        cells = [(item.row, item.column) for item in scene.items]
        assert 1 <= len(cells) <= 4
        assert cells == sorted(set(cells))
        assert scene.background.pattern in scene_graph.PATTERNS
        assert scene.background.color in scene_graph.BACKGROUND_COLORS
        for item in scene.items:
            assert item.shape in scene_graph.SHAPES
            assert item.color in set(scene_graph.COLORS) - {scene.background.color}
            assert item.size in scene_graph.SIZES
    assert {len(scene.items) for scene in scenes} == {1, 2, 3, 4}
    assert {scene.background.pattern for scene in scenes} == set(scene_graph.PATTERNS)


def test_scenes_are_a_function_of_the_seed():
    assert make_scenes(5, SIZES) == make_scenes(5, SIZES)
    assert make_scenes(5, SIZES) != make_scenes(6, SIZES)


def test_most_scenes_have_a_near_duplicate_in_their_split():
    def facts(scene):
        return {scene.background} | {(i.row, i.column, i.shape, i.color) for i in scene.items}

    scenes = make_scenes(7, SIZES)["validation"]
    close = {
        n
        for pair in itertools.combinations(range(len(scenes)), 2)
        if len(facts(scenes[pair[0]]) ^ facts(scenes[pair[1]])) <= 2
        for n in pair
    }
    assert len(close) > len(scenes) / 3


def test_relations_and_full_content_of_a_scene():
    scene = Scene(
        (
            SceneItem("bottom", "left", "star", "red", "small"),
            SceneItem("middle", "right", "ring", "blue", "large"),
            SceneItem("top", "right", "moon", "pink", "large"),
        ),
        Background("plain", "grey"),
    )
    assert scene_graph.full_content(scene) == Content(
        scene.items,
        scene.background,
        3,
        ((0, "left of", 1), (0, "below", 1), (0, "left of", 2), (0, "below", 2), (1, "below", 2)),
    )
    star, ring, _ = scene.items
    assert scene_graph.relations_between(ring, star) == ("right of", "above")
    assert scene_graph.relations_between(star, star) == ()
