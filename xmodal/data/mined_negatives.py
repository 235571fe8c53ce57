"""Tables of hard negatives of a training split, mined with another model, and draws from them.

Chen et al., "Adaptive Offline Quintuplet Loss for Image-Text Matching" (ECCV 2020), section 3.1,
and the authors' code, sunnychencool/AOQ. `xmodal mine` writes a folder:

FOLDER/captions.npy   int32 [N, K], the captions that score highest with each image, best first
FOLDER/images.npy     int32 [M, L], the images that score highest with each caption
FOLDER/mined.json     hashes of the records, and how the tables were made

Items are named by their position in the split. The true captions of an image are left out.
"""

import dataclasses
import os
from collections.abc import Mapping

import numpy as np
from etils import epath

from xmodal.core.errors import UserError
from xmodal.core.files import read_json
from xmodal.core.untrusted.saved_arrays import DAMAGE, load_arrays
from xmodal.data.columns import RaggedColumn

CARD = "mined.json"
_REMEDY = "mine it again with `xmodal mine`."
_WHERE = "config.data.mined_negatives"


@dataclasses.dataclass(frozen=True)
class MinedNegatives:
    """Hard negatives of a split.

    Attributes:
      captions: int32 [N, K].
      images: int32 [M, L].
      caption_ids: ids of the captions of each image.
    """

    captions: np.ndarray
    images: np.ndarray
    caption_ids: RaggedColumn

    def draw(
        self, records: np.ndarray, numbers: np.ndarray, bits: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Draws two more images and captions for each of b pairs.

        One number chooses the rank in both tables, as in AOQ. Image j shows what caption 1 - j
        says.

        Args:
          records: images of the pairs, int64 [b].
          numbers: their captions among all captions, int64 [b].
          bits: random non-negative int64 [b, 2].

        Returns:
          Records int64 [b, 2]: a hard negative of the caption, and the image of caption 0. Numbers
          among all captions, int64 [b, 2]: a hard negative of the image, and a caption of image 0.
        """
        (_, many), (_, few) = self.captions.shape, self.images.shape
        rank = bits[:, 0] % many
        caption = self.captions[records, rank].astype(np.int64)
        image = self.images[numbers, rank * few // many].astype(np.int64)
        starts = self.caption_ids.starts
        other_caption = starts[image] + bits[:, 1] % self.caption_ids.lengths[image]
        other_image = np.searchsorted(starts, caption, side="right") - 1
        return np.stack([image, other_image], axis=1), np.stack([caption, other_caption], axis=1)


def mined_name(column: str) -> str:
    """Returns the batch column of mined images that corresponds to a column of images."""
    return f"mined_{column}"


def open_mined(
    folder: str, split: str, caption_ids: RaggedColumn, hashes: Mapping[str, str]
) -> MinedNegatives:
    """Opens a folder of `xmodal mine`.

    Args:
      folder: the folder.
      split: the training split. Parts of a split have the hashes of the whole, in any order.
      caption_ids: see `MinedNegatives`.
      hashes: hashes of the split's records, see `split_hashes`.
    """
    path = epath.Path(folder) / CARD
    if not path.exists():
        raise UserError(f"{_WHERE}={folder!r} has no tables: write them with `xmodal mine`.")
    card = read_json(path, _REMEDY)
    records, mined = card.get("records") or {}, card.get("split")
    if mined != split or not hashes.items() <= records.items():
        raise UserError(
            f"{_WHERE}={folder!r} was mined from the split {mined!r}, records {records}, but "
            f"config.train_split is {split!r}, records {dict(hashes)}; mine it from this split."
        )
    files = (os.path.join(folder, name) for name in ("captions.npy", "images.npy"))
    try:
        captions, images = (load_arrays(file, mmap_mode="r") for file in files)
        return MinedNegatives(captions, images, caption_ids)
    except DAMAGE as error:
        raise UserError(f"{folder} has a damaged table ({error}); {_REMEDY}") from error
