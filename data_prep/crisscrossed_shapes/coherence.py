"""Captions that relate to their scene in different ways, labeled with their coherence relations.

The relations are those of Clue (Alikhani et al. 2020). A caption may describe the scene, express an
opinion of it, describe motion in it, tell a story about it, talk about the picture as a picture, or
be about something else; most captions do one or two of these.
"""

from collections.abc import Sequence

import numpy as np

from data_prep.crisscrossed_shapes.captions import SceneCaption
from data_prep.crisscrossed_shapes.scene_graph import Scene, SceneItem, relations_between
from data_prep.crisscrossed_shapes.speech import Speaker, with_article

RELATIONS = ("Visible", "Subjective", "Action", "Story", "Meta", "Irrelevant")

# Keyed by the relation of the first item to the second in the picture.
_MOTIONS = {
    "above": ("jumps over", "floats above", "is falling towards"),
    "below": ("hides beneath", "is climbing up to", "crawls under"),
    "left of": ("runs after", "is pulling", "rolls towards"),
    "right of": ("runs away from", "is pushing back", "drifts off from"),
}
_MOTIONS_ALONE = ("is dancing", "spins around", "takes a nap", "waits for its friends")
_STORIES = (
    "{} that won the race last summer",
    "how {} found its way home after years at sea",
    "before the storm nobody had ever noticed {}",
    "{} was a gift of my grandmother, who painted it in one night",
    "they say that {} brings luck to everybody who touches it",
    "the last evening of {} in the old town",
)
_JUDGMENTS = (
    "{}, so lovely",
    "{}, my favorite of them all",
    "{} and what a dull arrangement",
    "{}, a little sad if you ask me",
    "the most charming picture: {}",
    "{}, rather ugly",
)
_REMARKS = (
    "stock illustration: {}",
    "{}, flat design",
    "{}, vector graphic",
    "screenshot of {}",
    "{}, seen from the front",
    "a digital drawing of {}",
    "{}, isolated, royalty free",
)
_UNRELATED = (
    "click here to see the full size",
    "sale ends on friday, free delivery",
    "comments are closed",
    "five tips for better sleep",
    "related articles and further reading",
)


def relate(
    scene: Scene, described: SceneCaption, foreign: SceneCaption, rng: np.random.Generator
) -> tuple[str, tuple[int, ...]]:
    """Returns one caption of a scene, and 0 or 1 for each of `RELATIONS`, as frequent as in Clue.

    Args:
      scene: the content of the picture.
      described: a caption that describes it.
      foreign: a caption of another scene.
      rng: source of every choice.
    """
    speaker = Speaker(int(rng.integers(5)), rng)
    if speaker.chance(0.09):
        text = foreign.text if speaker.chance(0.5) else speaker.pick(_UNRELATED)
        held = {"Irrelevant"}
    elif speaker.chance(0.27):
        text, held = speaker.pick(_STORIES).format(_name(speaker, scene)), {"Story"}
    elif speaker.chance(0.23):
        text, held = _move(speaker, scene), {"Visible", "Action"}
    else:
        text, held = described.text, {"Visible"}
    if speaker.chance(0.1):
        text, held = _put(speaker, _JUDGMENTS, text), held | {"Subjective"}
    if speaker.chance(0.39):
        text, held = _put(speaker, _REMARKS, text), held | {"Meta"}
    return text, tuple(int(name in held) for name in RELATIONS)


def _name(speaker: Speaker, scene: Scene) -> str:
    """One item by its shape, often with its color."""
    (item,) = speaker.shuffled(scene.items)[:1]
    color = item.color if speaker.chance(0.7) else ""
    return f"the {speaker.words(SceneItem(shape=item.shape, color=color))}"


def _move(speaker: Speaker, scene: Scene) -> str:
    """A sentence about a motion suggested by the positions in the picture."""
    items = speaker.shuffled(scene.items)[:2]
    names = [
        with_article(speaker.words(SceneItem(shape=item.shape, color=item.color))) for item in items
    ]
    if len(items) == 1:
        return f"{names[0]} {speaker.pick(_MOTIONS_ALONE)}"
    relation = speaker.pick(relations_between(*items))
    return f"{names[0]} {speaker.pick(_MOTIONS[relation])} {names[1]}"


def _put(speaker: Speaker, frames: Sequence[str], text: str) -> str:
    """Puts a sentence into one of several frames, without its period and capital."""
    return speaker.pick(frames).format(text[0].lower() + text[1:].rstrip("."))
