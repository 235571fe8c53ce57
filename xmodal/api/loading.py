"""Opens a run, converted or published weights, or a bundle as a `Model`."""

import os
from collections.abc import Sequence

import jax
from etils import epath

from xmodal.api.bundles import CARD
from xmodal.api.bundles.bundle import open_bundle
from xmodal.api.model import Model
from xmodal.core.compilation_cache import use_compilation_cache
from xmodal.core.hub import locate
from xmodal.core.mesh import make_mesh


def load(
    source: str | os.PathLike,
    *,
    step: int | str = "best",
    devices: Sequence[jax.Device] | None = None,
) -> Model:
    """Returns the model in a folder.

    Args:
      source: a run, such as `runs/quickstart`, a model or tower of `xmodal convert`, or a
        bundle of `xmodal export`; or a published CLIP or SigLIP (a folder of transformers or
        open_clip, a file of openai/CLIP or big_vision), which is converted once. Local or on a
        bucket, or `hf://OWNER/NAME` on the Hub, see `core.hub.locate`. `pip:minilm` and
        `pip:efficientnet_lite2` are towers of installed packages.
      step: checkpoint of a run: a number, `best` or `latest`.
      devices: devices that share the work; by default all of this process. If they belong to
        several processes, all of these make the same calls.
    """
    use_compilation_cache()
    mesh = make_mesh(jax.local_devices() if devices is None else devices)
    folder = locate(os.fspath(source))
    if (epath.Path(folder) / CARD).exists():
        return open_bundle(folder, mesh)
    # It imports flax and orbax, which a bundle does not need.
    from xmodal.api.model_sources import make_model, read_folder

    return make_model(read_folder(source, step), mesh)
