"""The identity of an evaluated model, by which results of another one are not overwritten."""

import contextlib
import dataclasses
import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

import ml_collections
from etils import epath

from xmodal.data.text.tokenizer_files import read_vocabulary
from xmodal.evals.scores.arrays import named_similarity

# Sections of a config that identify a model, besides `data`.
_OF_THE_MODEL = (
    "seed",
    "batch_size",
    "model",
    "tasks",
    "freeze",
    "l2",
    "train_split",
    "optimizer",
    "init_from",
)
# Keys of `data` that do not identify a model: it stays the same when its files move.
_NOT_LEARNED = ("data_dir", "manual_dir", "ratings_dir", "prefetch")
_BLOCK = 2**24


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
        similarity = similarity or named_similarity(path)
        digest = hashlib.sha256(similarity.encode())
        for each in filter(None, (path, ids)):
            # An unreadable file is reported later, when it is loaded.
            with contextlib.suppress(OSError), epath.Path(each).open("rb") as file:
                while block := file.read(_BLOCK):
                    digest.update(block)
        return cls(f"{path} ({similarity})" if similarity else path, digest.hexdigest())

    @classmethod
    def of_config(
        cls, config: ml_collections.ConfigDict, trained_on: Mapping[str, str] | None = None
    ) -> "ModelIdentity":
        """Returns the model that a config trains or loads; the run's length does not matter.

        Args:
          config: config of the model.
          trained_on: hash of the records of its training data, by name, if it was trained here.
        """
        sections = {name: config.get(name) for name in _OF_THE_MODEL}
        sections["data"] = _learned_from(config)
        sections["records"] = sorted((trained_on or {}).values())
        text = ml_collections.ConfigDict(sections).to_json_best_effort(sort_keys=True)
        return cls(config.name, hashlib.sha256(text.encode()).hexdigest())

    @classmethod
    def of_several(cls, members: Sequence["ModelIdentity"]) -> "ModelIdentity":
        """Returns the ensemble of models."""
        joined = " ".join(member.hash for member in members)
        names = " + ".join(member.name for member in members)
        return cls(names, hashlib.sha256(joined.encode()).hexdigest())


def _learned_from(config: ml_collections.ConfigDict) -> dict[str, Any]:
    """Returns `config.data` without paths, and with the vocabulary's words instead of its path.

    The config may not have been checked yet.
    """
    data = config.to_dict().get("data") or {}
    if isinstance(text := data.get("text"), dict):
        path = text.pop("vocabulary", "")
        data["text"] = text | {"words": read_vocabulary(path).identity if path else ()}
    return {name: value for name, value in data.items() if name not in _NOT_LEARNED}
