"""Repositories of the Hugging Face Hub: `hf://OWNER/NAME[@REVISION][/PATH]` for a folder."""

import contextlib
import functools
import os
import pathlib
import re
from collections.abc import Iterator
from typing import Any

from xmodal.core.errors import UserError

_NAME = re.compile(r"hf://(?P<id>[^/@]+/[^/@]+)(@(?P<revision>[^/]+))?(/(?P<path>.+?))?/?")
_COPIES = ["*.bin", "*.pt", "*.pth", "*.ckpt", "*.h5", "*.msgpack", "*.ot", "*.tflite", "*.onnx*"]
_BESIDE = ("*.json", "*.txt", "*.model")  # Small files beside a folder or file of weights.


@contextlib.contextmanager
def hub_errors(place: str) -> Iterator[Any]:
    """Provides the module huggingface_hub, and turns the errors of libraries into a sentence.

    Args:
      place: what is read or written, as the user names it.
    """
    try:
        import huggingface_hub

        yield huggingface_hub
    except ModuleNotFoundError as error:
        raise UserError(f'{place} needs {error.name}: pip install "xmodal[hub]".') from error
    except Exception as error:  # The libraries raise errors of many types.
        reason = " ".join(str(error).split())
        raise UserError(
            f"{place} cannot be reached ({reason:.160}): check the name, the revision and the "
            "network, without which only what is in the local cache is found; private and gated "
            "repositories need `hf auth login`."
        ) from error


@functools.cache
def locate(place: str, kind: str = "model") -> str:
    """Returns the local folder or file of a repository on the Hub; another path unchanged.

    Files are downloaded into the cache of huggingface_hub, and not again if they are there; then
    no network is needed. Copies of safetensors in other formats are left out.

    Args:
      place: any path, or `hf://OWNER/NAME`, with `@REVISION` (branch, tag or commit) and `/PATH` (a
        folder or file in the repository) if needed.
      kind: "model" or "dataset".
    """
    if not place.startswith("hf://"):
        return place
    if (matched := _NAME.fullmatch(place)) is None:
        raise UserError(f"{place} is not hf://OWNER/NAME, hf://OWNER/NAME@REVISION or either/PATH.")
    path = matched["path"] or ""
    with hub_errors(place) as hub:
        download = functools.partial(
            hub.snapshot_download,
            matched["id"],
            repo_type=kind,
            revision=matched["revision"],
            allow_patterns=[path, f"{path}/*", *_BESIDE] if path else None,
        )
        root = download(ignore_patterns=_COPIES)
        if not any(pathlib.Path(root).rglob("*.safetensors")):
            root = download()
    if not os.path.exists(found := os.path.join(root, path)):
        raise UserError(f"{place} does not exist: the repository has no {path}.")
    return found
