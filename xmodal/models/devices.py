"""The machine that a model is built for."""

import dataclasses


@dataclasses.dataclass(frozen=True)
class Devices:
    """The devices that a model will run on.

    Attributes:
      count: devices that the batch is split over.
      platform: `cpu`, `gpu` or `tpu`; some layers have a faster implementation for one of them.
    """

    count: int = 1
    platform: str = "cpu"


ONE_CPU = Devices()
