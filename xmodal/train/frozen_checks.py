"""Checks that a run does not change the outputs of its frozen encoders."""

import os
from typing import TYPE_CHECKING

from xmodal.core.buckets import is_on_bucket
from xmodal.core.errors import UserError
from xmodal.train.tree import flatten

if TYPE_CHECKING:
    from xmodal.train.run import Run


def check(parts: "Run") -> None:
    """Raises an error if features would change while the run trains, or sides that share a part.

    Raises:
      UserError: a part that both sides share is frozen on one of them; a side has no frozen
        features, a parameter they depend on is trained, the encoder or the data change them from
        step to step, or they cannot be written.
    """
    settings = parts.settings
    _check_shared(parts)
    if settings.frozen_features.sides and settings.frozen_features.folder:
        check_folder(settings.frozen_features.folder)
    for side in settings.frozen_features.sides:
        where = f"config.frozen_features.sides names {side!r}"
        if side not in parts.model.towers:
            raise UserError(f"{where}, but config.model.{side} is None; remove the name.")
        trained = set(flatten(parts.trained))
        paths = parts.model.towers[side].frozen_paths(parts.shapes[0][side])
        for path in (f"{side}/{path}" for path in paths):
            if path in trained:
                raise UserError(
                    f"{where}, but {path} is trained: match it in config.freeze, or leave {side!r} "
                    "out."
                )
        encoder = settings.model[side]["encoder"]
        is_frozen = not any(path.startswith(f"{side}/encoder/") for path in trained)
        if encoder.get("dropout") and not is_frozen:
            raise UserError(
                f"{where}, but config.model.{side}.encoder.dropout={encoder['dropout']} changes "
                "the features at every step; set it to 0."
            )
        if encoder.get("batch_norm") == "batch_frozen":
            raise UserError(
                f"{where}, but config.model.{side}.encoder.batch_norm='batch_frozen' changes the "
                "features at every step; set it to 'running'."
            )
        section = settings.data.image if side == "image" else settings.data.text
        if section.augment is not None:
            raise UserError(
                f"{where}, but config.data.{side}.augment changes the inputs at every step; set "
                "it to None."
            )


def _check_shared(parts: "Run") -> None:
    trained = set(flatten(parts.trained))
    for path in sorted(flatten(parts.frozen)):
        side, _, rest = path.partition("/")
        other = f"{'text' if side == 'image' else 'image'}/{rest}"
        is_shared = any(rest.startswith(f"{shared}/") for shared in parts.model.shared)
        if is_shared and other in trained:
            raise UserError(
                f"{path} is frozen by config.freeze, but {other} is not, and config.model.shared "
                "makes them equal; freeze both or neither."
            )


def check_folder(folder: str) -> None:
    """Raises an error if features cannot be written to a folder.

    Raises:
      UserError: the path is on a bucket, or is a file.
    """
    if is_on_bucket(folder):
        raise UserError(
            f"config.frozen_features.folder={folder!r} is not on a file system; give a folder "
            "that every process sees."
        )
    if os.path.exists(folder) and not os.path.isdir(folder):
        raise UserError(f"config.frozen_features.folder={folder!r} is a file; give a folder.")
