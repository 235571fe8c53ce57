"""Opens a run, converted or published weights, or a bundle as a `Model`."""

import os

import jax
from etils import epath

from xmodal.api.bundles.card import CARD
from xmodal.api.bundles.opening import open_bundle
from xmodal.api.model import Model
from xmodal.core import mesh as mesh_lib
from xmodal.core.compilation_cache import use_compilation_cache
from xmodal.core.errors import UserError


def load(source: str | os.PathLike, *, step: int | str = "best") -> Model:
    """Returns the model in a folder, on all devices of this process.

    Args:
      source: a run, such as `runs/quickstart`, a model or tower of `xmodal convert`, or a
        bundle of `xmodal export`; or a published CLIP or SigLIP (a folder of transformers or
        open_clip, a file of openai/CLIP or big_vision), which is converted once. Local or on a
        bucket. `pip:minilm` and `pip:efficientnet_lite2` are towers of installed packages.
      step: checkpoint of a run: a number, `best` or `latest`.

    Raises:
      UserError: the folder is none of these, or damaged, or has no such checkpoint.
    """
    use_compilation_cache()
    if (epath.Path(source) / CARD).exists():
        if step != "best":
            raise UserError(f"{source} is a bundle, which has no steps; remove step={step!r}.")
        return _load_bundle(source)
    # They import flax and orbax, which a bundle does not need.
    from xmodal.api.model_sources import make_model, read_folder

    return make_model(read_folder(source, step))


def _load_bundle(source: str | os.PathLike) -> Model:
    bundle = open_bundle(source)
    mesh = mesh_lib.make_mesh(jax.local_devices())
    return Model(
        os.fspath(source),
        bundle.encoders,
        jax.device_put(bundle.params, mesh_lib.replicated(mesh)),
        {},
        mesh=mesh,
        images=bundle.images,
        tokenizer=bundle.tokenizer,
        lengths=bundle.lengths,
        source=os.fspath(source),
    )
