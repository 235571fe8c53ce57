"""Classification of a folder by names, with a model that sees mean colors."""

import csv
import pathlib
import sys

import numpy as np
import PIL.Image
import pytest

from xmodal.apps import classify

COLORS = {"red": (1, 0, 0), "dark green": (0, 1, 0), "blue": (0, 0, 1)}


class ColorModel:
    """Embeds pictures by their mean color, and texts by that which they name."""

    name, modalities = "colors", ("image", "text")

    def embed_images(self, given, *, upright, unreadable):
        found = []
        for row, path in enumerate(given):
            try:
                found.append(np.asarray(PIL.Image.open(path)).mean(axis=(0, 1)))
            except OSError as error:
                unreadable[row] = str(error)
                found.append(np.ones(3))
        return np.array(found, np.float32)

    def embed_texts(self, texts):
        named = [[color for name, color in COLORS.items() if name in text] for text in texts]
        # Prompts differ by more than their class.
        return np.array(
            [np.add(*each, [0.1 * len(text)] * 3) for each, text in zip(named, texts, strict=True)]
        )


@pytest.fixture
def run(tmp_path, monkeypatch):
    """Classifies pictures of the colors, and returns the folder of the results."""
    folder = tmp_path / "photos"
    folder.mkdir()
    for name, color in {
        "a": (250, 20, 30),
        "b": (90, 80, 85),
        "c": (0, 20, 200),
        "d": (120, 90, 0),
    }.items():
        PIL.Image.new("RGB", (50, 40), color).save(folder / f"{name}.png")
    (folder / "broken.png").write_bytes(b"")

    def call(*arguments, model):
        monkeypatch.setattr("xmodal.api.loading.load", lambda source: model)
        monkeypatch.setattr("xmodal.core.reused_memory.reuse_memory", lambda: None)
        output = f"--output={tmp_path / 'sorted'}"
        monkeypatch.setattr(sys, "argv", ["classify", str(folder), "--model=x", output, *arguments])
        classify.main()
        return tmp_path / "sorted"

    return call


def unit(vectors):
    return vectors / np.linalg.norm(vectors, axis=-1, keepdims=True)


def test_classes_and_margins_are_those_of_zero_shot(run, tmp_path, capsys):
    names = tmp_path / "classes.txt"
    names.write_text("red\n\ndark_green\nblue\n")
    model, prompts = ColorModel(), ["{}", "a picture of {}"]
    output = run(f"--classes={names}", f"--templates={','.join(prompts)}", model=model)
    said = f"4 pictures in 3 classes; 1 cannot be read: {output}/classify.html\n"
    assert capsys.readouterr().out == said
    vectors = [
        unit(unit(model.embed_texts([x.format(c) for x in prompts])).mean(0)) for c in COLORS
    ]
    rows = list(csv.DictReader((output / "classify.csv").open()))
    files = [pathlib.Path(row["file"]).stem for row in rows]
    assert sorted(files) == ["a", "b", "c", "d"]
    classes = ["red", "dark_green", "blue"]
    # The least certain picture of a class is first.
    keys = [(classes.index(row["class"]), float(row["margin"])) for row in rows]
    assert keys == sorted(keys)
    assert keys[0][0] == keys[1][0] == 0
    for row in rows:
        scores = unit(np.asarray(PIL.Image.open(row["file"])).mean((0, 1))) @ np.array(vectors).T
        first, second, _ = np.argsort(-scores)
        assert (row["class"], row["second_class"]) == (classes[first], classes[second])
        assert float(row["cosine"]) == pytest.approx(scores[first], abs=1e-4)
        assert float(row["margin"]) == pytest.approx(scores[first] - scores[second], abs=1e-4)
    page = (output / "classify.html").read_text()
    places = [page.index(f'alt="{name}.png"') for name in files]
    assert places == sorted(places)
    assert page.rindex(">red: ") < places[0] < page.rindex(">blue: ") < places[3]


def test_what_cannot_be_classified(run, tmp_path):
    with pytest.raises(SystemExit, match=r"--classes names \['dog'\]; give two or more"):
        run("--classes=dog,dog", model=ColorModel())
    assert not list(tmp_path.glob("sorted/*"))
