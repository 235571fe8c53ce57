"""The origin of the arrays in a file, so that they are not used for other records."""

import dataclasses
from collections.abc import Mapping

from xmodal.core.errors import UserError
from xmodal.evals.labels.split import different_records


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
        """Raises an error for other records of one name, whose items may have equal ids."""
        if names := different_records(self.records, records):
            raise UserError(
                f"{place} was saved by {self.model} on other records of {', '.join(names)}: its "
                "ids may be those of other items. Save it again on these records, or evaluate it "
                "with the dataset that it was saved on."
            )
