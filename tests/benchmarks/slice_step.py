r"""Compiles a config's training step for an absent TPU slice, and reads the compiled program.

    python -m tests.benchmarks.slice_step --config=configs/cxc_multitask.py \
        --config.model.text.encoder.unroll=True [--topology=v3:4x4]

Needs the extra `tpu`. Prints a line of JSON per text layout of the step: memory, TFLOP, GB moved
and the estimated time of one device, with the GB by part of the model and kind of operation.
Unrolled layers are all counted; XLA counts the body of a loop once.
"""

import json

from absl import flags, logging

from tests.benchmarks.accelerators import find
from tests.benchmarks.program import read_program
from tests.benchmarks.traffic import count_moved, count_traffic
from xmodal.apps import config_flag
from xmodal.core.mesh import make_mesh
from xmodal.train import costs
from xmodal.train.compiled_step import lower_step
from xmodal.train.resolve import resolve

flags.adopt_module_key_flags(config_flag)
TOPOLOGY = flags.DEFINE_string("topology", "v3:4x4", "Generation, and chips along each axis.")


def main(argv: list[str]) -> None:
    """Prints the figures."""
    del argv
    logging.set_verbosity(logging.WARNING)
    devices = costs.slice_devices(TOPOLOGY.value)
    run = resolve(config_flag.read_config(), mesh=make_mesh(devices), needs_data=False)
    accelerator = find(devices[0])
    assert accelerator is not None
    for layout, lowered in lower_step(run, run.state_shapes).items():
        compiled = lowered.compile()
        found, program = costs.measure(compiled), read_program(compiled.as_text())
        moved = count_moved(program, found.moved_bytes)
        traffic = {
            part: {kind: round(size / 1e9, 1) for kind, size in kinds.items()}
            for part, kinds in count_traffic(program).items()
        }
        products = found.flops / (accelerator.tflops * 1e12)
        figures = {
            "config": run.settings.name,
            "topology": TOPOLOGY.value,
            "layout": layout,
            "arguments_gib": round(found.argument_bytes / 2**30, 2),
            "temporaries_gib": round(found.temporary_bytes / 2**30, 2),
            "tflop": round(found.flops / 1e12, 2),
            "gb_moved": round(moved / 1e9, 1),
            "compiler_seconds": found.compiler_seconds,
            "limit_seconds": round(max(products, moved / (accelerator.bandwidth * 1e9)), 3),
            "traffic_gb": traffic,
        }
        print(json.dumps(figures), flush=True)


if __name__ == "__main__":
    flags.mark_flag_as_required("config")
    config_flag.run(main)
