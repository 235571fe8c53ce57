"""Evaluation of a model on a split: embed once, then every board from the same embeddings."""

from collections.abc import Iterator, Mapping
from typing import Any, Protocol

import numpy as np
from jax.sharding import Mesh

from xmodal.evals import embed
from xmodal.evals.boards.make import make_boards
from xmodal.evals.boards.types import Labels
from xmodal.evals.inputs.sources import Embeddings
from xmodal.evals.reports.summary import summarize
from xmodal.evals.results import BoardResult
from xmodal.evals.runner import evaluate_boards


class EvalSet(Labels, Protocol):
    """A split to evaluate on: labels, and every unique item once (`xmodal.data.EvalSet`)."""

    def images(self, batch_size: int) -> Iterator[Mapping[str, np.ndarray]]:
        """Yields dicts of `image` [b, ...] and `image_id` [b], in the order of `image_ids`."""

    def captions(self, batch_size: int) -> Iterator[Mapping[str, np.ndarray]]:
        """Yields dicts of `text_ids`, `text_mask` [b, T] and `caption_id` [b], in id order."""


class Evaluator:
    """Evaluates one model again and again; compiled functions are kept between calls."""

    def __init__(
        self,
        model: embed.Model,
        *,
        batch_size: int,
        mesh: Mesh | None = None,
        bootstrap_samples: int = 1000,
        seed: int = 0,
    ) -> None:
        """Prepares the evaluation.

        Args:
          model: a dual encoder; tasks that need a tower it lacks are left out.
          batch_size: items embedded per call, over all devices.
          mesh: device mesh with an axis `data`, or None for one device.
          bootstrap_samples: of every correlation.
          seed: of the bootstrap.
        """
        self._model = model
        self._mesh = mesh
        self._embedder = embed.Embedder(model, batch_size=batch_size, mesh=mesh)
        self._bootstrap_samples = bootstrap_samples
        self._seed = seed

    def run(self, params: Any, model_state: Any, eval_set: EvalSet) -> dict[str, float]:
        """Embeds the split and computes all its boards.

        Args:
          params: parameters of all towers.
          model_state: state of all towers.
          eval_set: the split.

        Returns:
          `<board>/<task>/<metric>` -> value; recalls and correlations times 100.

        Raises:
          ValueError: the split and its labels disagree, or embeddings are not finite.
        """
        return summarize(self.results(params, model_state, eval_set), intervals=False)

    def results(self, params: Any, model_state: Any, eval_set: EvalSet) -> list[BoardResult]:
        """The same as `run`, query by query."""
        items = {
            "image": (eval_set.images, eval_set.image_ids),
            "text": (eval_set.captions, eval_set.caption_ids),
        }
        vectors = {}
        for name in self._model.towers:
            batches, ids = items[name]
            embedded = self._embedder.embed_items(
                name, params, model_state, batches(self._embedder.batch_size)
            )
            if not np.array_equal(embedded.ids, ids):
                raise ValueError(
                    f"The {name} items of {eval_set.name} came in another order or number "
                    f"({len(embedded.ids)}) than their id list ({len(ids)})."
                )
            vectors[name] = embedded.vectors
        return evaluate_boards(
            Embeddings(vectors.get("image"), vectors.get("text"), self._model.similarity),
            eval_set,
            make_boards(eval_set),
            bootstrap_samples=self._bootstrap_samples,
            seed=self._seed,
            mesh=self._mesh,
        )
