"""Runs a builder like a build, up to the serialized records, but writes nothing."""

import contextlib
import dataclasses
import io
import types
from typing import Any

import numpy as np
import PIL.Image

import data_prep
from data_prep.building.record_counts import BuildReport
from tests.data_prep.fuzzing.mutations import ODD
from xmodal.core.errors import UnexpectedFilesError
from xmodal.data.pixels.images import decode_image

# What JSON values other than strings look like when converted to strings.
_NO_TEXTS = {str(value) for value in ODD if not isinstance(value, str)}


@dataclasses.dataclass
class Outcome:
    """The outcome of a build.

    Attributes:
      error: the error, or None.
      kept: split -> key -> serialized example.
      left_out: split -> reason -> records.
      parts: parts of records that were left out.
      converted: number of images that were converted.
      rows: number of rows in the list of left-out records.
      ids: all ids of images and captions.
    """

    error: Exception | None = None
    kept: dict[str, dict[Any, bytes]] = dataclasses.field(default_factory=dict)
    left_out: dict[str, dict[str, int]] = dataclasses.field(default_factory=dict)
    parts: int = 0
    converted: int = 0
    rows: int = 0
    ids: set[int] = dataclasses.field(default_factory=set)

    def records(self) -> dict[str, int]:
        """Records of every published split, kept or not."""
        return {
            split: len(kept) + sum(self.left_out[split].values())
            for split, kept in self.kept.items()
            if split != "test_deduplicated"
        }


def attempt(stand_in: Any, folder: Any, scratch: Any) -> Outcome:
    """Reads all splits of a stand-in. Raises errors that users should never see.

    Args:
      stand_in: see `stand_ins`.
      folder: its files, broken or not.
      scratch: an empty folder.
    """
    cls = data_prep.builder_class(stand_in.dataset)
    builder = cls(config=stand_in.config, data_dir=scratch / "tfds", min_kept=0.0)
    outcome = Outcome()
    with BuildReport(scratch / "left_out.csv") as report:
        builder._report = report
        try:
            manager = types.SimpleNamespace(manual_dir=str(folder))
            for split, records in builder._split_generators(manager).items():
                outcome.kept[split] = {}
                for key, example in records:
                    _check(example)
                    outcome.ids.update(_ids(example))
                    outcome.kept[split][key] = builder.info.features.serialize_example(example)
        except (UnexpectedFilesError, FileNotFoundError) as error:
            return Outcome(error=error)
        counts = report.metadata()
    outcome.left_out = counts["left_out"]
    outcome.parts = sum(sum(found.values()) for found in counts["parts"].values())
    outcome.converted = sum(sum(found.values()) for found in counts["converted"].values())
    with contextlib.suppress(FileNotFoundError):
        outcome.rows = (scratch / "left_out.csv").read_text(encoding="utf-8").count("\n") - 1
    return outcome


def _ids(example: dict[str, Any]) -> list[int]:
    named = (value for name, value in example.items() if name.endswith(("_id", "_ids")))
    return [int(item) for value in named for item in np.atleast_1d(value)]


def _check(example: dict[str, Any]) -> None:
    """Checks properties that every record must have, whatever the files."""
    assert all(0 <= item < 2**31 for item in _ids(example)), example
    for name, value in example.items():
        values = value if isinstance(value, list | tuple) else [value]
        if name == "relations":
            assert set(np.asarray(value).tolist()) <= {0, 1}, f"{name} {value}"
        elif name == "score":
            low, high = (1, 4) if example.get("rating") == "expert" else (0, 5)
            assert low <= value <= high, f"score {value}"
        elif "image" in name and isinstance(value, bytes):
            image = PIL.Image.open(io.BytesIO(value))
            assert image.mode in ("RGB", "L"), image.mode
            decode_image(value)  # as in training
        elif isinstance(value, np.ndarray):
            assert np.isfinite(value).all()
        for text in values:
            if isinstance(text, str) and name != "year_average":
                assert text.strip(), f"{name} is empty"
                assert "\0" not in text, f"{name} has a NUL"
                assert text not in _NO_TEXTS, f"{name} is {text}"
