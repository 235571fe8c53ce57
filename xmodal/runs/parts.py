"""The parts of a run, and the shapes and initial values that follow from them."""

import dataclasses
import functools
from collections.abc import Callable, Mapping

import jax
import ml_collections
import numpy as np
import optax
from jax.sharding import Mesh

from xmodal.evals.evaluators import Options
from xmodal.models import DualEncoder
from xmodal.runs.config.run_config import RunConfig
from xmodal.runs.config.spec import Spec
from xmodal.training import rngs
from xmodal.training.optimization.optimizer import make_optimizer
from xmodal.training.state import TrainState, first_state, init_params, with_shardings
from xmodal.training.tasks import Task
from xmodal.training.tree import Tree, partition


@dataclasses.dataclass(frozen=True)
class Parts:
    """The parts of a run, checked against each other.

    The loop, the trial before it, the evaluation and a sweep are given these and nothing else.

    Attributes:
      spec: the config that they are made from; nothing reads a config again.
      mesh: all devices.
      model: the towers and their similarity.
      tasks: the trained tasks.
      batch: name -> shape and dtype of the columns of a global training batch.
    """

    spec: Spec
    mesh: Mesh
    model: DualEncoder
    tasks: tuple[Task, ...]
    batch: Mapping[str, jax.ShapeDtypeStruct]

    @property
    def config(self) -> ml_collections.ConfigDict:
        """The config, with all settings that follow from the dataset."""
        return self.spec.config

    @property
    def settings(self) -> RunConfig:
        """The same config as a dataclass."""
        return self.spec.settings

    @property
    def evals(self) -> Mapping[str, Options]:
        """Options of the evaluators, by name."""
        return self.spec.evals

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
        return jax.jit(functools.partial(init_params, self.model, self.tasks, one))

    @functools.cached_property
    def shapes(self) -> tuple[Tree, Tree]:
        """Shapes and dtypes of `(params, model_state)`."""
        return jax.eval_shape(self.init_params, self.key_data)

    @functools.cached_property
    def trained(self) -> Tree:
        """Shapes and dtypes of the trained parameters."""
        return partition(self.shapes[0], self.settings.freeze)[0]

    @functools.cached_property
    def frozen(self) -> Tree:
        """Shapes and dtypes of the frozen parameters."""
        return partition(self.shapes[0], self.settings.freeze)[1]

    @functools.cached_property
    def optimizer(self) -> optax.GradientTransformation:
        """The optimizer of the trained parameters."""
        settings = self.settings
        return make_optimizer(settings.optimizer, settings.total_steps, self.trained, self.frozen)

    def init_state(self, key_data: jax.Array | np.ndarray) -> TrainState:
        """Returns the state of step 0; a pure function."""
        return first_state(*self.init_params(key_data), self.optimizer, self.settings.freeze)

    @functools.cached_property
    def state_shapes(self) -> TrainState:
        """Shapes, dtypes and sharding of the state; nothing is computed."""
        make = functools.partial(first_state, optimizer=self.optimizer, freeze=self.settings.freeze)
        # Uses the known parameter shapes, since tracing the towers again takes seconds.
        shapes = jax.eval_shape(make, *self.shapes)
        return with_shardings(shapes, self.mesh, self.settings.sharding)
