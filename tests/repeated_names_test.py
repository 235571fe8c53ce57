"""One thing under a name: files and public classes of the packages."""

import ast
import collections
import pathlib
import re

ROOT = pathlib.Path(__file__).parents[1]
FILES = [path for package in ("xmodal", "data_prep") for path in (ROOT / package).rglob("*.py")]


def repeated(places):
    """The places of all names that have several."""
    found = collections.defaultdict(set)
    for name, path in places:
        found[name].add(str(path.relative_to(ROOT)))
    return {name: sorted(paths) for name, paths in found.items() if len(paths) > 1}


def test_no_two_files_share_a_name():
    assert not repeated((path.name, path) for path in FILES if not path.name.startswith("__"))
    tests = (ROOT / "tests").rglob("*_test.py")
    assert not repeated((path.name, path) for path in tests)


def test_no_two_public_classes_share_a_name():
    classes = (
        (node.name, path)
        for path in FILES
        for node in ast.parse(path.read_text(encoding="utf-8")).body
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_")
    )
    found = repeated(classes)
    found.pop("Builder")  # TFDS looks for this one in the file of every dataset.
    assert not found


def test_classes_that_docstrings_name_with_their_file_are_there():
    texts = {path: path.read_text(encoding="utf-8") for path in FILES}
    words = collections.defaultdict(set)
    for path, text in texts.items():
        words[path.stem].update(re.findall(r"\w+", text))
    wrong = [
        f"{path}: `{module}.{name}`"
        for path, text in texts.items()
        for module, name in re.findall(r"`(?:\w+\.)*(\w+)\.([A-Z]\w*[a-z]\w*)[`.]", text)
        if module in words and name not in words[module]
    ]
    assert not wrong
