"""The identity of an evaluated model, by which results of another one are not overwritten."""

import dataclasses
import hashlib
from collections.abc import Mapping, Sequence

import ml_collections
from etils import epath

from xmodal.core.checksums import sha256_of
from xmodal.data.text.tokenizer_files import read_vocabulary

# Sections of a config that identify a model, besides `data`.
_OF_THE_MODEL = (
    *("seed", "batch_size", "model", "tasks", "freeze", "l2", "train_split", "optimizer"),
    "init_from",
)
# Keys of `data` that do not identify a model: it stays the same when its files move.
_NOT_LEARNED = ("data_dir", "manual_dir", "ratings_dir", "prefetch")


@dataclasses.dataclass(frozen=True)
class ModelIdentity:
    """The model that produced results, in `model.json` beside them.

    Attributes:
      name: its name in error messages.
      hash: hash of its file, or of the settings and records that it was trained with.
    """

    name: str
    hash: str

    @classmethod
    def of_file(
        cls, path: str, similarity: str | None = None, ids: str | None = None
    ) -> "ModelIdentity":
        """Returns the model in a file.

        Args:
          path: file of embeddings, scores or rankings.
          similarity: similarity of embeddings; None for the one that the file names.
          ids: file of the ids of scores.
        """
        # A missing file is reported when it is loaded.
        files = [epath.Path(each) for each in (path, ids) if each and epath.Path(each).is_file()]
        parts = [similarity or "", *map(sha256_of, files)]
        return cls(f"{path} ({similarity})" if similarity else path, _hash(" ".join(parts)))

    @classmethod
    def of_config(
        cls, config: ml_collections.ConfigDict, trained_on: Mapping[str, str] | None = None
    ) -> "ModelIdentity":
        """Returns the model that a config trains or loads; the run's length does not matter.

        Args:
          config: config of the model.
          trained_on: hash of the records of its training data, by name, if it was trained here.
        """
        learned = config.to_dict().get("data") or {}
        if isinstance(text := learned.get("text"), dict):  # The config may not be checked yet.
            path = text.pop("vocabulary", "")
            text["words"] = read_vocabulary(path).identity if path else ()
        sections = {name: config.get(name) for name in _OF_THE_MODEL}
        sections["data"] = {name: x for name, x in learned.items() if name not in _NOT_LEARNED}
        sections["records"] = sorted((trained_on or {}).values())
        text = ml_collections.ConfigDict(sections).to_json_best_effort(sort_keys=True)
        return cls(config.name, _hash(text))

    @classmethod
    def of_several(cls, members: Sequence["ModelIdentity"]) -> "ModelIdentity":
        """Returns the ensemble of models."""
        names = " + ".join(member.name for member in members)
        return cls(names, _hash(" ".join(member.hash for member in members)))


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
