"""Captions of a scene by five describers.

Describers differ in the things they mention, in their favorite words and in the order and voice of
their sentences, so the captions of an image agree with the image but often not with each other.
Every caption carries its content as a partial scene graph."""

import collections
import dataclasses
from collections.abc import Callable

import numpy as np

from data_prep.crisscrossed_shapes.scene_graph import (
    OPPOSITES,
    SIZES,
    Background,
    Content,
    Scene,
    SceneItem,
    relations_between,
)
from data_prep.crisscrossed_shapes.speech import (
    COLORS,
    NUMBERS,
    RELATIONS,
    Speaker,
    joined,
    with_article,
)

DESCRIBERS = 5


@dataclasses.dataclass(frozen=True)
class SceneCaption:
    """A sentence and its content."""

    text: str
    content: Content


def describe(scene: Scene, rng: np.random.Generator) -> list[SceneCaption]:
    """Captions of one scene, one by each of the five describers.

    Every describer uses a different one of the six styles; the assignment, and the style that is
    not used, differ from image to image.
    """
    styles = rng.permutation(len(STYLES))[:DESCRIBERS]
    captions = [STYLES[style](scene, Speaker(habit, rng)) for habit, style in enumerate(styles)]
    return [
        dataclasses.replace(caption, text=_finished(caption.text, rng.random() < 0.8))
        for caption in captions
    ]


def _finished(text: str, careful: bool) -> str:
    return f"{text[0].upper()}{text[1:]}." if careful else text


def _mention(
    item: SceneItem, speaker: Speaker, *, color: float, size: float = 0.0, place: float = 0.0
) -> SceneItem:
    """The attributes of an item that are mentioned, given the probability of each."""
    # People rarely mention that something is of medium size.
    says_size = speaker.chance(size * (0.15 if item.size == "medium" else 1))
    row, column = (item.row, item.column) if speaker.chance(place) else ("", "")
    if speaker.chance(0.4) and (row, column) != ("middle", "center"):
        drop_row = row == "middle" or (column != "center" and speaker.chance(0.5))
        row, column = ("", column) if drop_row else (row, "")
    return SceneItem(
        row,
        column,
        shape=item.shape,
        color=item.color if speaker.chance(color) else "",
        size=item.size if says_size else "",
    )


def _said_background(scene: Scene, speaker: Speaker) -> Background:
    pattern = scene.background.pattern if speaker.chance(0.7) else ""
    color = scene.background.color if speaker.chance(0.8) or not pattern else ""
    return Background(pattern, color)


def _most_salient(scene: Scene, speaker: Speaker) -> SceneItem:
    return max(speaker.shuffled(scene.items), key=lambda item: SIZES.index(item.size))


def _salient(scene: Scene, speaker: Speaker) -> SceneCaption:
    """Names only the most conspicuous item."""
    item = _mention(_most_salient(scene, speaker), speaker, color=0.85, size=0.6, place=0.5)
    name = speaker.phrase(item)
    if len(scene.items) == 1 and speaker.chance(0.5):
        text = speaker.pick((f"only {name}", f"just {name}", f"{name} and nothing else"))
        return SceneCaption(text, Content((item,), count=1))
    text = speaker.pick(
        (
            name,
            f"there is {name}",
            f"{name} stands out",
            f"the first thing one sees is {name}",
            f"the eye is drawn to {name}",
        )
    )
    return SceneCaption(text, Content((item,)))


def _related(scene: Scene, speaker: Speaker) -> SceneCaption:
    """Relates two items to each other, or a single one to the frame."""
    if len(scene.items) == 1:
        (item,) = scene.items
        said = dataclasses.replace(
            _mention(item, speaker, color=0.7, size=0.4), row=item.row, column=item.column
        )
        text = speaker.phrase(said)
        return SceneCaption(f"{text} of the picture", Content((said,)))
    first, second, *_ = speaker.shuffled(scene.items)
    relation = speaker.pick(relations_between(first, second))
    items = tuple(_mention(item, speaker, color=0.75, size=0.3) for item in (first, second))
    relations = ((0, relation, 1),)
    one, other = (with_article(speaker.words(item)) for item in items)
    where = speaker.word(RELATIONS[relation])
    opposite = speaker.word(RELATIONS[OPPOSITES[relation]])
    text = speaker.pick(
        (
            f"{one} {where} {other}",
            f"{one} is {where} {other}",
            f"{one} has been placed {where} {other}",
            f"{where} {other} there is {one}",
            f"{other} {opposite} {one}",
            f"{other} can be found {opposite} {one}",
        )
    )
    return SceneCaption(text, Content(items, relations=relations))


def _layout(scene: Scene, speaker: Speaker) -> SceneCaption:
    """Names the background and little else except the number of items."""
    background = _said_background(scene, speaker)
    backdrop = with_article(speaker.backdrop(background))
    items: tuple[SceneItem, ...] = ()
    count = None
    if speaker.chance(0.4):
        count = len(scene.items)
        subject = speaker.number(SceneItem(), count)
    elif speaker.chance(0.75):
        items = (_mention(_most_salient(scene, speaker), speaker, color=0.5, place=0.5),)
        subject = speaker.phrase(items[0])
    else:
        subject = speaker.pick(("a simple drawing", "something drawn", "geometry", "a picture"))
    text = speaker.pick(
        (
            f"{subject} on {backdrop}",
            f"{subject} in front of {backdrop}",
            f"{backdrop} behind {subject}",
            f"{backdrop} with {subject} on it",
            f"{backdrop} carries {subject}",
        )
    )
    return SceneCaption(text, Content(items, background, count))


def _terse(scene: Scene, speaker: Speaker) -> SceneCaption:
    """Telegraphic: up to three items, no articles, no verbs."""
    items = tuple(_mention(item, speaker, color=0.75) for item in speaker.shuffled(scene.items)[:3])
    words = [speaker.words(item) for item in items]
    background = Background()
    if speaker.chance(0.35):
        background = _said_background(scene, speaker)
        words.append(speaker.backdrop(background))
    text = speaker.pick((", ".join(words), joined(words), " + ".join(words)))
    return SceneCaption(text, Content(items, background))


def _counted(scene: Scene, speaker: Speaker) -> SceneCaption:
    """Counts items by shape, by color, or all together."""
    if speaker.chance(1 / 3):
        return _counted_together(scene, speaker)
    total = len(scene.items)
    kind = speaker.pick(("shape", "color"))
    groups = collections.Counter(getattr(item, kind) for item in scene.items)
    names = [speaker.number(SceneItem(**{kind: value}), n) for value, n in groups.items()]
    items = tuple(SceneItem(**{kind: value}) for value in groups.elements())
    text = speaker.pick(("{}", "there are {}", "I count {}", "a total of {}"))
    if total == 1:
        text = speaker.pick(("{}", "there is only {}", "nothing but {}", "I count {}"))
    return SceneCaption(text.format(joined(names)), Content(items, count=total))


def _counted_together(scene: Scene, speaker: Speaker) -> SceneCaption:
    total = len(scene.items)
    color, number = collections.Counter(item.color for item in scene.items).most_common(1)[0]
    content = Content((SceneItem(color=color),) * number, count=total)
    everything = speaker.number(SceneItem(), total)
    adjective = speaker.word(COLORS[color])
    if total == 1:
        return SceneCaption(f"{everything}, {adjective}", content)
    part = "all" if number == total else NUMBERS[number]
    return SceneCaption(f"{everything}, {part} of them {adjective}", content)


def _wordy(scene: Scene, speaker: Speaker) -> SceneCaption:
    """Names all items, and usually the background, in one long sentence."""
    items = tuple(
        _mention(item, speaker, color=0.9, size=0.5, place=0.5)
        for item in speaker.shuffled(scene.items)
    )
    names = joined([speaker.phrase(item) for item in items])
    start = speaker.pick(
        ("this picture shows", "in this image we can see", "someone has drawn", "here we have")
    )
    if speaker.chance(0.4):
        return SceneCaption(f"{start} {names}", Content(items, count=len(items)))
    background = _said_background(scene, speaker)
    backdrop = with_article(speaker.backdrop(background))
    text = speaker.pick(
        (
            f"{start} {names}, set against {backdrop}",
            f"{start} {names}, all of it on {backdrop}",
            f"on {backdrop} one can see {names}",
            f"{names} can be seen against {backdrop}",
        )
    )
    return SceneCaption(text, Content(items, background, count=len(items)))


STYLES: tuple[Callable[[Scene, Speaker], SceneCaption], ...] = (
    _salient,
    _related,
    _layout,
    _terse,
    _counted,
    _wordy,
)
