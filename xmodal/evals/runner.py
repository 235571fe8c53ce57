"""Evaluation of a model on a split: embed once, then every board from the same embeddings."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol

import numpy as np
from jax.sharding import Mesh

from xmodal.evals import boards as boards_lib
from xmodal.evals import correlation, embed, retrieval
from xmodal.evals.ranks import compute_ranks
from xmodal.losses import similarity as similarity_lib


class EvalSet(boards_lib.Labels, Protocol):
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
        boards = boards_lib.make_boards(eval_set)
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
        return compute_metrics(
            vectors,
            boards,
            similarity=self._model.similarity,
            bootstrap_samples=self._bootstrap_samples,
            seed=self._seed,
            mesh=self._mesh,
        )


def compute_metrics(
    vectors: Mapping[str, np.ndarray],
    boards: Sequence[boards_lib.Board],
    *,
    similarity: str,
    bootstrap_samples: int = 1000,
    seed: int = 0,
    mesh: Mesh | None = None,
) -> dict[str, float]:
    """Computes every metric of the boards that the given embeddings allow.

    Args:
      vectors: "image" and "text" -> float32 [N, D] in gallery order; one may be missing.
      boards: what to compute.
      similarity: name in `xmodal.losses.similarity.SIMILARITIES`.
      bootstrap_samples: of every correlation.
      seed: of the bootstrap.
      mesh: as in `ranks.compute_ranks`.

    Returns:
      `<board>/<task>/<metric>` -> value. `<board>/mean_recall@10` is the mean over i2t and t2i,
      or the value of t2t where there are no images.
    """
    vectors = {
        name: np.asarray(similarity_lib.normalise(similarity, rows))
        for name, rows in vectors.items()
    }
    metrics: dict[str, float] = {}
    for task, (query, gallery) in boards_lib.RETRIEVAL_TASKS.items():
        asking = [board for board in boards if task in board.positives]
        if not asking or not {query, gallery} <= set(vectors):
            continue
        within = query == gallery
        # One product of the two galleries serves all boards.
        all_ranks = compute_ranks(
            vectors[query],
            vectors[gallery],
            [board.positives[task] for board in asking],
            exclude_self=within,
            mesh=mesh,
        )
        for board, ranks in zip(asking, all_ranks, strict=True):
            for name, value in retrieval.compute_retrieval(
                ranks, len(vectors[gallery]) - within
            ).items():
                metrics[f"{board.name}/{task}/{name}"] = value
    for board in boards:
        for task, pairs in board.graded.items():
            if not set(pairs.modalities) <= set(vectors):
                continue
            left, right = (vectors[name] for name in pairs.modalities)
            values = correlation.compute_spearman(
                correlation.score_pairs(left, right, pairs.left, pairs.right),
                pairs.scores,
                correlation.draw_pairs(pairs.pairs_of_query, samples=bootstrap_samples, seed=seed),
            )
            metrics[f"{board.name}/{task}/spearman"] = 100.0 * float(values.mean())
            metrics[f"{board.name}/{task}/spearman_std"] = 100.0 * float(values.std())
            metrics[f"{board.name}/{task}/pairs"] = float(len(pairs.scores))
            metrics[f"{board.name}/{task}/pairs_per_sample"] = float(
                len(pairs.pairs_of_query.lengths) // 2
            )
        selection = ("i2t", "t2i") if len(vectors) == 2 else ("t2t",)
        recalls = [metrics.get(f"{board.name}/{task}/recall@10") for task in selection]
        if None not in recalls:
            metrics[f"{board.name}/mean_recall@10"] = float(np.mean(recalls))
    return metrics
