"""The statistics of SAF's gates against a slow loop, on one device and on eight."""

import functools

import jax
import numpy as np

from tests.similarity.slow_saf import compare_pair, linear, real_items
from tests.similarity.token_views import make_params, make_views
from xmodal.core import mesh as mesh_lib
from xmodal.similarity import make_similarity
from xmodal.train.step.task_losses import observe_batch
from xmodal.train.step.tasks import make_tasks

SAF = make_similarity({"name": "saf", "width": 5, "gate_norm": "batch"})
TASKS = make_tasks({"i2t": {"views": ["image", "caption_0"], "loss": {"name": "triplet"}}})


def test_statistics_of_each_caption_over_all_images():
    views = make_views((8, 8))
    params = {"similarity": make_params(SAF, views)}
    own, images, texts = params["similarity"], *map(real_items, views)
    gates = [
        np.concatenate([linear(own["gate"], node) for image in images for node in nodes(image)])
        for nodes in [
            functools.partial(lambda text, image: compare_pair(own, image, text), text)
            for text in texts
        ]
    ]
    running = {name: np.float64(own["gate_norm"][name][0]) for name in ("mean", "variance")}
    for each in sorted(gates, key=len, reverse=True):
        values = {"mean": each.mean(), "variance": each.var(ddof=1)}
        running = {name: 0.9 * running[name] + 0.1 * values[name] for name in running}

    for devices in (1, 8):
        mesh = mesh_lib.make_mesh(jax.devices()[:devices])
        placed = jax.device_put(views, mesh_lib.batch_sharded(mesh))
        given = jax.device_put(params, mesh_lib.replicated(mesh))

        @jax.jit
        def observe(views, params, mesh=mesh):
            named = dict(zip(("image", "caption_0"), views, strict=True))
            return observe_batch(TASKS, named, params, SAF, mesh)

        found, observed = observe(placed, given)
        assert "gate_mean" not in found["image"].extras
        extras = found["caption_0"].extras
        expected = [[each.mean(), each.var()] for each in gates]
        statistics = np.stack([extras["gate_mean"], extras["gate_variance"]], 1)
        np.testing.assert_allclose(statistics, expected, rtol=1e-4, atol=1e-6)
        for name, value in running.items():
            value_found = observed["similarity"]["gate_norm"][name]
            np.testing.assert_allclose(value_found, [value], rtol=1e-4)
