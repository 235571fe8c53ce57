"""Three steps of Adam with clipped gradients, ours and torch's."""

import jax
import numpy as np
import optax

from xmodal.core.config import read
from xmodal.train.optimization.optimizer import OptimizerConfig, make_optimizer
from xmodal.train.tree import flatten

STEPS, RATE, CLIP = 3, 1e-3, 0.1


def train(params, gradients):
    """The last parameters, and the norms of the gradients before clipping.

    Args:
      params: tree of parameters.
      gradients: function from parameters to their gradients.
    """
    given = {"learning_rate": RATE, "clip_norm": CLIP}
    optimizer = make_optimizer(read(OptimizerConfig, "config.optimizer", given), STEPS, params)

    @jax.jit
    def step(found, state, params):
        changes, state = optimizer.update(found, state, params)
        return optax.apply_updates(params, changes), state, optax.tree.norm(found)

    state, norms = jax.jit(optimizer.init)(params), []
    for _ in range(STEPS):
        params, state, norm = step(gradients(params), state, params)
        norms.append(float(norm))
    return params, norms


def train_torch(torch, parameters, compute_loss):
    """Changes the parameters, and returns the norms of the gradients before clipping."""
    optimizer, norms = torch.optim.Adam(parameters, RATE), []
    for _ in range(STEPS):
        optimizer.zero_grad()
        compute_loss().backward()
        norms.append(torch.nn.utils.clip_grad_norm_(parameters, CLIP).item())
        optimizer.step()
    return norms


def check_movement(start, ours, theirs):
    """Two trained trees differ by at most 1e-3 of the largest movement in each array."""
    start, ours, theirs = map(flatten, (start, ours, theirs))
    assert set(start) == set(ours) == set(theirs)
    for path, wanted in theirs.items():
        moved = np.abs(wanted - start[path]).max()
        assert moved > RATE, path
        assert np.abs(ours[path] - wanted).max() < 1e-3 * moved, path
