"""Prints every difference between two golden records, and exits with 1 if there is any.

python -m tests.golden.compare OLD NEW [--tolerance=1e-6] [--only=REGEX]
"""

import argparse
import json
import math
import pathlib
import re
import sys
from collections.abc import Iterator
from typing import Any

# Old -> new names of keys, metrics and files, as whole names or as parts between slashes.
RENAMED_KEYS: dict[str, str] = {}
# Old -> new text of output, reports and other values: regular expressions.
RENAMED_TEXT: dict[str, str] = {
    r"xmodal\.main\b": "xmodal train",
    r"xmodal\.eval_main\b": "xmodal evaluate",
    r"xmodal\.convert_weights\b": "xmodal convert",
    r"xmodal\.(?:analysis\.)?(export|search|sweep|show|annotate|word2vec|agree|bradley_terry"
    r"|caption_relations|describe|label_quality|sample_pairs|votes)\b": r"xmodal \1",
    r"embedded dataset": "built-in dataset",
    r"\b(?:has|have) to be\b": "must be",
    r"a whole number": "an integer",
    r"^export --run=": "export --model=",
    r"\bshow --models=": "show --model=",
}
# Keys and names of metrics, matched as a whole: times, speeds, versions, and the hash of a config
# with its paths, which is recorded itself.
IGNORED = re.compile(
    r"perf/.*|config_hash|.*seconds.*|.*_ms|version|versions|hostname|host|pid|started|finished_at|time"
)
_NUMBER = re.compile(r"(?<![\w.])[-+]?\d+(?:,\d{3})*(?:\.\d+)?(?:[eE][-+]?\d+)?(?![\w])")


def differences(old: Any, new: Any, tolerance: float, place: str = "") -> Iterator[str]:
    """Yields a line for every difference between two values read from JSON.

    Args:
      old: value of the old record.
      new: value of the new one.
      tolerance: largest relative difference between equal numbers; whole numbers must be equal.
      place: where the values are.
    """
    if isinstance(old, dict) and isinstance(new, dict):
        old, new = _renamed(old), _renamed(new)
        for key in sorted(old.keys() | new.keys()):
            if IGNORED.fullmatch(key):
                continue
            inside = f"{place}[{key}]"
            if key not in new:
                yield f"{inside}: only in OLD"
            elif key not in old:
                yield f"{inside}: only in NEW"
            else:
                yield from differences(old[key], new[key], tolerance, inside)
    elif place.endswith("[files]"):
        names, others = ({_rename(name) for name in each} for each in (old, new))
        yield from (f"{place}: only in OLD: {name}" for name in sorted(names - others))
        yield from (f"{place}: only in NEW: {name}" for name in sorted(others - names))
    elif isinstance(old, list) and isinstance(new, list):
        if len(old) != len(new):
            yield f"{place}: {len(old)} != {len(new)} entries"
        for number, (one, other) in enumerate(zip(old, new, strict=False)):
            yield from differences(one, other, tolerance, f"{place}[{number}]")
    elif not _are_equal(old, new, tolerance):
        yield f"{place}: {old!r} != {new!r}"


def _renamed(mapping: dict[str, Any]) -> dict[str, Any]:
    return {_rename(key): value for key, value in mapping.items()}


def _rename(name: str) -> str:
    name = RENAMED_KEYS.get(name, name)
    return "/".join(RENAMED_KEYS.get(part, part) for part in name.split("/"))


def _are_equal(old: Any, new: Any, tolerance: float) -> bool:
    if isinstance(old, str) and isinstance(new, str):
        return _texts_are_equal(old, new, tolerance)
    if isinstance(old, float) and isinstance(new, float):
        both_nan = math.isnan(old) and math.isnan(new)
        return both_nan or math.isclose(old, new, rel_tol=tolerance, abs_tol=tolerance * 1e-3)
    return type(old) is type(new) and old == new


def _texts_are_equal(old: str, new: str, tolerance: float) -> bool:
    """Compares two texts, with a tolerance for the numbers in them."""
    for pattern, name in RENAMED_TEXT.items():
        old, new = re.sub(pattern, name, old), re.sub(pattern, name, new)
    if _NUMBER.sub("0", old) != _NUMBER.sub("0", new):
        return False
    pairs = zip(_NUMBER.findall(old), _NUMBER.findall(new), strict=True)
    return all(
        one == other or _are_equal(_to_float(one), _to_float(other), tolerance)
        for one, other in pairs
    )


def _to_float(text: str) -> float:
    return float(text.replace(",", ""))


def compare(
    old: pathlib.Path, new: pathlib.Path, tolerance: float = 1e-6, only: str = ""
) -> list[str]:
    """Returns a line for every difference between the cases in two folders."""
    records = [
        {path.stem: path for path in folder.glob("*.json") if re.search(only, path.stem)}
        for folder in (old, new)
    ]
    found = []
    for name in sorted(records[0].keys() | records[1].keys()):
        paths = [each.get(name) for each in records]
        if None in paths:
            found.append(f"{name}: only in {'NEW' if paths[0] is None else 'OLD'}")
            continue
        one, other = (json.loads(path.read_text()) for path in paths if path)
        found += differences(one, other, tolerance, name)
    return found


def main() -> None:
    """Compares the records that the command line names."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("old", type=pathlib.Path, help="folder of a record")
    parser.add_argument("new", type=pathlib.Path, help="folder of another record")
    parser.add_argument("--tolerance", type=float, default=1e-6, help="relative, of numbers")
    parser.add_argument("--only", default="", help="regular expression searched in names of cases")
    args = parser.parse_args()
    for folder in (args.old, args.new):
        if not any(folder.glob("*.json")):
            parser.error(f"{folder} has no record")
    found = compare(args.old, args.new, args.tolerance, args.only)
    print("\n".join(found), end="\n" if found else "")
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
