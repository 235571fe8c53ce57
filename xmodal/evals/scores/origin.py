"""The origin of the arrays in a file, so that they are not used for other records."""

import dataclasses
import json
from collections.abc import Mapping

import numpy as np

from xmodal.core.errors import UserError
from xmodal.core.untrusted.json_text import parse_json_text
from xmodal.core.untrusted.saved_arrays import DAMAGE, load_arrays
from xmodal.evals.labels.split import different_records

NAME = "xmodal_origin"
"""Name of its array, a string in JSON: `{"model": ..., "records": {NAME: HASH}}`."""


@dataclasses.dataclass(frozen=True)
class FileOrigin:
    """The model that made the arrays of a file, and its records.

    Attributes:
      model: name of the model, with the step of a run's checkpoint.
      records: hashes of the records of the items, by name, see `Split`.
    """

    model: str
    records: Mapping[str, str]

    def check(self, place: str, records: Mapping[str, str]) -> None:
        """Raises an error for other records of one name, whose items may have equal ids.

        Raises:
          UserError: names `place`, the file, and the differing records.
        """
        if names := different_records(self.records, records):
            raise UserError(
                f"{place} was saved by {self.model} on other records of {', '.join(names)}: its "
                "ids may be those of other items. Save it again on these records, or evaluate it "
                "with the dataset that it was saved on."
            )


def check_origin(path: str, place: str, records: Mapping[str, str]) -> None:
    """Raises an error if a file of arrays was saved on other records, see `FileOrigin.check`.

    Nothing else of it is read; damage is reported where its arrays are.

    Raises:
      UserError: names `place`, the file, and the differing records.
    """
    try:
        with load_arrays(path) as arrays:
            found = {NAME: arrays[NAME]} if NAME in arrays else {}
    except DAMAGE:
        return
    if (origin := read_origin(found, place)) is not None:
        origin.check(place, records)


def write_origin(origin: FileOrigin | None) -> dict[str, np.ndarray]:
    """Returns the array that `read_origin` reads; none if the origin is not known."""
    if origin is None:
        return {}
    fields = {"model": origin.model, "records": dict(origin.records)}
    return {NAME: np.array(json.dumps(fields))}


def read_origin(arrays: Mapping[str, np.ndarray], place: str) -> FileOrigin | None:
    """Returns the origin in some arrays; None for those of other programs.

    Raises:
      UserError: it is damaged; names `place`, the file.
    """
    if NAME not in arrays:
        return None
    try:
        fields = parse_json_text(str(arrays[NAME]))
        return FileOrigin(fields["model"], fields["records"])
    except (KeyError, TypeError, ValueError) as error:
        raise UserError(
            f"{NAME} in {place} is damaged ({error!r}); save the file again."
        ) from error
