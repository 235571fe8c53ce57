"""The dependencies in setup.py."""

import ast
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).parents[1]
PACKAGES = ("xmodal", "data_prep", "configs")
# Imported packages that are installed under another name.
DISTRIBUTIONS = {
    "PIL": "pillow",
    "absl": "absl-py",
    "faiss": "faiss-cpu",
    "google": "protobuf",
    "libtpu": "jax",  # Its extra `tpu`.
    "orbax": "orbax-checkpoint",
    "sklearn": "scikit-learn",
}


def parse(path):
    return ast.walk(ast.parse(path.read_text(encoding="utf-8")))


def imported_packages():
    """The packages that the project imports, each with one of the files that import it."""
    files = {}
    for path in (path for package in PACKAGES for path in (ROOT / package).rglob("*.py")):
        for node in parse(path):
            modules = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom) and node.level == 0:
                modules = [node.module]
            for module in modules:
                files[module.split(".")[0]] = str(path.relative_to(ROOT))
    return files


def normalize(name):
    return name.replace("_", "-").lower()


def declared_distributions():
    """The normalized names of all requirements, including those of extras."""
    lists = {}
    for node in parse(ROOT / "setup.py"):
        if isinstance(node, ast.keyword) and node.arg in ("install_requires", "extras_require"):
            lists[node.arg] = ast.literal_eval(node.value)
    requirements = sum(lists["extras_require"].values(), lists["install_requires"])
    return {normalize(re.match(r"[\w-]+", requirement).group()) for requirement in requirements}


def test_every_imported_package_is_declared():
    ours = sys.stdlib_module_names | {*PACKAGES, "_typeshed"}
    declared = declared_distributions()
    undeclared = {
        package: file
        for package, file in imported_packages().items()
        if package not in ours and normalize(DISTRIBUTIONS.get(package, package)) not in declared
    }
    assert not undeclared
