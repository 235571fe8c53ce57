"""A resolved run: its config, and everything that is made from it."""

import dataclasses
import functools
from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.sharding import Mesh
from ml_collections import ConfigDict

from xmodal.evals.evaluators import Options
from xmodal.models import DualEncoder
from xmodal.train import rngs
from xmodal.train.folder.run_folder import Records
from xmodal.train.optimization.optimizer import make_optimizer
from xmodal.train.run_config import RunConfig
from xmodal.train.step.step import MOMENTUM, momentum_rate
from xmodal.train.step.tasks import Task
from xmodal.train.step.views import embed_views, tower_inputs
from xmodal.train.tree import TrainState, Tree, partition, tree_shardings


@dataclasses.dataclass(frozen=True)
class Run:
    """A run whose config has been checked; nothing reads a config again.

    The loop, the dry run, the evaluation and a sweep are given this and nothing else.

    Attributes:
      settings: the config; nothing in it depends on the dataset or on other weights any more.
      evals: options of the evaluators, by name.
      mesh: all devices.
      model: the towers and their similarity.
      tasks: the trained tasks.
      batch: name -> shape and dtype of the columns of a global training batch.
      records: what it trains on, see `Records`; empty if the dataset is not known, or not needed.
      missing: why the dataset is not known; sizes that depend on it are then arbitrary. "" if it
        is known, or not needed.
    """

    settings: RunConfig
    evals: Mapping[str, Options]
    mesh: Mesh
    model: DualEncoder
    tasks: tuple[Task, ...]
    batch: Mapping[str, jax.ShapeDtypeStruct]
    records: Records = dataclasses.field(default_factory=dict)
    missing: str = ""

    @property
    def config(self) -> ConfigDict:
        """The settings as they are saved in the run's config.json."""
        return ConfigDict(dataclasses.asdict(self.settings), type_safe=False)

    @functools.cached_property
    def key_data(self) -> np.ndarray:
        """The run's seed, as an argument of its programs, which runs of other seeds share."""
        return rngs.key_data(self.settings.seed)

    @functools.cached_property
    def init_params(self) -> Callable[..., tuple[Tree, Tree]]:
        """Returns `(params, model_state)` of `key_data`; compiled, and takes seconds to trace."""
        # The number of items does not affect the parameters.
        one = {
            name: np.zeros((1, *spec.shape[1:]), spec.dtype) for name, spec in self.batch.items()
        }
        return jax.jit(functools.partial(self._init_params, one))

    @functools.cached_property
    def shapes(self) -> tuple[Tree, Tree]:
        """Shapes and dtypes of `(params, model_state)`."""
        return jax.eval_shape(self.init_params, self.key_data)

    @functools.cached_property
    def optimizer(self) -> optax.GradientTransformation:
        """The optimizer of the trained parameters."""
        settings = self.settings
        parts = partition(self.shapes[0], settings.freeze)
        return make_optimizer(settings.optimizer, settings.total_steps, *parts)

    def init_state(self, key_data: jax.Array | np.ndarray) -> TrainState:
        """Returns the state of step 0; a pure function."""
        return self._first_state(*self.init_params(key_data))

    @functools.cached_property
    def state_shapes(self) -> TrainState:
        """Shapes, dtypes and sharding of the state; nothing is computed."""
        # Uses the known parameter shapes, since tracing the towers again takes seconds.
        shapes = jax.eval_shape(self._first_state, *self.shapes)
        shardings = tree_shardings(shapes, self.settings.sharding, self.mesh)
        return jax.tree.map(lambda leaf, each: leaf.update(sharding=each), shapes, shardings)

    def _first_state(self, params: Tree, model_state: Tree) -> TrainState:
        trained, frozen = partition(params, self.settings.freeze)
        step, opt_state = jnp.zeros((), jnp.int32), self.optimizer.init(trained)
        return TrainState(step, trained, frozen, model_state, opt_state)

    def _init_params(
        self, batch: Mapping[str, Any], seed: int | np.ndarray | jax.Array
    ) -> tuple[Tree, Tree]:
        """Returns the initial `(params, model_state)` of the model and its tasks.

        Args:
          batch: raw columns of a training batch of any size; only shapes and dtypes matter.
          seed: seed of the parameters, see `rngs.stream_key`.
        """
        inputs = {modality: tower_inputs(batch, modality) for modality in self.model.towers}
        params, model_state = self.model.init(rngs.stream_key(seed, "params"), inputs)
        if momentum_rate(self.tasks) is not None:
            model_state[MOMENTUM] = {modality: params[modality] for modality in self.model.towers}
        if not any(task.module or task.similarity for task in self.tasks):
            return params, model_state
        views, _ = embed_views(self.model, self.tasks, params, model_state, batch)
        towers = dict(params)
        for task in self.tasks:
            key = rngs.stream_key(seed, f"params/tasks/{task.name}")
            own = task.init(key, views, batch, towers)
            for tree, found in zip((params, model_state), own, strict=True):
                if found:
                    tree.setdefault("tasks", {})[task.name] = found
        return params, model_state
