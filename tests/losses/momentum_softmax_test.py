"""BLIP's contrastive loss over three batches, against its code's queue with a pointer."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from xmodal.losses import LOSSES
from xmodal.models import make_task_module

SIZE, QUEUE, DIM, TEMPERATURE, SOFT = 4, 8, 5, 0.2, 0.4
SIMILARITY = {"name": "cosine", "temperature": TEMPERATURE, "learned_temperature": True}


def unit(x):
    return x / x.norm(dim=-1, keepdim=True)


class SlowQueue:
    """The loss of models/blip_retrieval.py; columns of a queue are replaced in turns."""

    def __init__(self, torch, state):
        # Of the random vectors at the start, ours replaces the last ones first.
        self.torch, self.place = torch, QUEUE - SIZE
        self.queues = [torch.tensor(np.array(state[name])) for name in ("left", "right", "ids")]

    def loss(self, left, right, copies, ids):
        torch = self.torch
        whole = [unit(torch.cat(x)) for x in zip(copies, self.queues[:2], strict=True)]
        same = ids[:, None] == torch.cat([ids, self.queues[2]])[None]
        hard = same.float() / same.sum(1, keepdim=True)
        total = 0
        for query, copy, other in ((left, copies[0], whole[1]), (right, copies[1], whole[0])):
            with torch.no_grad():
                opinion = torch.softmax(unit(copy) @ other.T / TEMPERATURE, 1)
            target = SOFT * opinion + (1 - SOFT) * hard
            found = torch.log_softmax(unit(query) @ other.T / TEMPERATURE, 1)
            total = total - (found * target).sum(1).mean() / 2
        for queue, new in zip(self.queues, (*copies, ids), strict=True):
            queue[self.place : self.place + SIZE] = new
        self.place = (self.place + SIZE) % QUEUE
        return total


def test_three_batches_equal_the_authors_code(make_pairs, make_context):
    torch = pytest.importorskip("torch")
    module = make_task_module("loss.module", "momentum_queue", {"size": QUEUE})
    assert module.momentum == 0.995
    columns = {"image_id": jnp.arange(SIZE)}
    views = make_pairs(SIZE, dim=DIM)
    params, state = module.init(jax.random.key(0), *views, columns, {})
    assert not params
    np.testing.assert_array_equal(state["queue"]["ids"], np.full(QUEUE, -100))
    np.testing.assert_allclose(np.linalg.norm(state["queue"]["left"], axis=1), 1, rtol=1e-6)
    slow = SlowQueue(torch, state["queue"])

    @jax.jit
    def step(views, copies, ids, state):
        outputs, state = module.apply({}, state, *copies, {"image_id": ids}, {}, train=True)

        def loss(views):
            context = make_context(ids, SIMILARITY, outputs=outputs)
            return LOSSES["momentum_softmax"].function(*views, context, soft=SOFT)[0]

        return *jax.value_and_grad(loss)(views), state

    for number in range(4):
        views, copies = (make_pairs(SIZE, dim=DIM, seed=2 * number + k) for k in (0, 1))
        ids = np.array([0, 1, 1, 5], np.int32) + number
        value, gradients, state = step(views, copies, ids, state)
        leaves = [torch.tensor(view.vector, requires_grad=True) for view in views]
        given = [torch.tensor(copy.vector) for copy in copies]
        expected = slow.loss(*leaves, given, torch.tensor(ids))
        expected.backward()
        np.testing.assert_allclose(value, expected.item(), rtol=1e-5)
        for ours, leaf in zip(gradients, leaves, strict=True):
            np.testing.assert_allclose(ours.vector, leaf.grad, rtol=1e-3, atol=1e-6)
    held = {name: set(np.ravel(state["queue"][name]).tolist()) for name in ("left", "ids")}
    assert held["left"] == set(np.ravel(slow.queues[0]).tolist())
    assert held["ids"] == {2, 3, 4, 7, 8}
