"""Remedies for a program that does not fit."""

import types

import numpy as np
import pytest

from configs import base
from xmodal.training import memory


def make_parts(devices=8, engine=None, loss="softmax", batch_size=65536, parts=1, sharding=()):
    task = base.task("image", "caption_0", loss)
    if engine is not None:
        task["loss"]["options"] = {"engine": engine}
    encoder = {"name": "efficientnet", "variant": "b0"}
    settings = types.SimpleNamespace(
        batch_size=batch_size,
        accumulation_steps=parts,
        sharding=sharding,
        model={"image": {"encoder": encoder}},
        tasks={"i2t": task},
    )
    return types.SimpleNamespace(
        settings=settings,
        mesh=types.SimpleNamespace(size=devices),
        model=types.SimpleNamespace(towers=["image"]),
        trained={"image": {"encoder": {"kernel": np.zeros(1)}}},
    )


def test_changes_of_no_number_come_first():
    flags = [remedy.partition("=")[0] for remedy in memory.remedies(make_parts())]
    assert flags == [
        "--config.model.image.encoder.remat",
        "--config.sharding",
        "--config.tasks.i2t.loss.options.engine",
        "--config.accumulation_steps",
        "--config.batch_size",
    ]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, "ring"),  # By default.
        ({"engine": "dense"}, "ring"),
        ({"devices": 1}, "chunked"),
        ({"engine": "auto:100000"}, "ring"),
        ({"engine": "auto:1"}, None),
        ({"engine": "chunked"}, None),
        ({"batch_size": 1024}, None),
        ({"loss": "pearson"}, None),
    ],
)
def test_scores_of_all_pairs_are_found_whatever_engine_is_named(options, expected):
    named = [each for each in memory.remedies(make_parts(**options)) if "engine=" in each]
    assert [each.partition("engine=")[2].split()[0] for each in named] == [expected][: len(named)]
    assert bool(named) == (expected is not None)


def test_a_smaller_batch_is_one_that_can_be_trained():
    remedies = memory.remedies(make_parts(batch_size=96, parts=3))
    assert remedies[-1].startswith("--config.batch_size=48 (now 96)")
    remedies = memory.remedies(make_parts(batch_size=24, parts=3))
    assert not any("batch_size" in each for each in remedies)
