"""Keras stays out of the way until somebody asks for it."""

import subprocess
import sys

PROGRAM = """
import sys

from xmodal.tensorflow_import import importing_tensorflow

with importing_tensorflow():
    import xmodal.training.loop

heavy = ["keras", "sklearn", "IPython", "pandas", "tensorflow_text", "scipy.stats"]
print("loaded:", *(name for name in heavy if name in sys.modules))

import tensorflow as tf
from tensorflow.keras import layers

model = tf.keras.Sequential([layers.Dense(2)])
model.compile(optimizer="adam", loss="mse")
print(model(tf.ones([3, 4])).shape, model.optimizer.__class__.__name__)
"""


def test_keras_is_imported_when_it_is_used():
    found = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True
    )
    assert found.stdout.splitlines() == ["loaded:", "(3, 2) Adam"]


FAILURE = """
import os

from xmodal.tensorflow_import import importing_tensorflow

with importing_tensorflow():
    os.write(2, b"a line of CUDA\\n")
{failure}
print("done")
"""


def test_lines_of_an_import_show_only_if_it_fails():
    def run(failure):
        program = FAILURE.format(failure=failure)
        return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)

    fine, failed = run(""), run("    import no_module")
    assert (fine.stdout, fine.stderr) == ("done\n", "")
    assert failed.returncode == 1
    assert failed.stderr.startswith("a line of CUDA\n")
    assert failed.stderr.endswith("No module named 'no_module'\n")
