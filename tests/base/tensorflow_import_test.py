"""Keras is not imported until it is needed."""

import subprocess
import sys

import pytest

PROGRAM = """
import sys

import xmodal.runs.loop
from xmodal.runs.tensorboard.writer import make_writer

make_writer(sys.argv[1]).close()
heavy = ["keras", "sklearn", "IPython", "pandas", "tensorflow_text", "scipy.stats"]
print("loaded:", *(name for name in heavy if name in sys.modules))

import tensorflow as tf
from tensorflow.keras import layers

model = tf.keras.Sequential([layers.Dense(2)])
model.compile(optimizer="adam", loss="mse")
print(model(tf.ones([3, 4])).shape, model.optimizer.__class__.__name__)

from tensorboard.plugins.hparams import api

print(issubclass(api.KerasCallback, tf.keras.callbacks.Callback))
"""


@pytest.mark.slow
def test_keras_is_imported_when_it_is_used(tmp_path):
    found = subprocess.run(
        [sys.executable, "-c", PROGRAM, tmp_path], capture_output=True, text=True, check=True
    )
    assert found.stdout.splitlines() == ["loaded:", "(3, 2) Adam", "True"]
