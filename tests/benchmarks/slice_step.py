r"""Compiles a config's training step for an absent TPU slice, and reads the compiled program.

    python -m tests.benchmarks.slice_step --config=configs/cxc_multitask.py \
        --config.model.text.encoder.unroll=True [--topology=v3:4x4]

Needs the extra `tpu`. Prints a line of JSON per text layout of the step: memory, TFLOP, GB moved
and the estimated time of one device. Unrolled layers are all counted; XLA counts the body of a loop
once.
"""

import json

from absl import flags, logging

from tests.benchmarks.main_memory import count_moved
from xmodal.apps import config_flag
from xmodal.train import costs
from xmodal.train.compiled_step import lower_step
from xmodal.train.resolve import resolve

flags.adopt_module_key_flags(config_flag)
# Device as JAX names it -> 10**12 operations (bfloat16) and 10**9 bytes of memory per second: a
# core of v3, a chip of the others, as published.
_SPEEDS = {
    "TPU v3": (61.5, 450),
    "TPU v4": (275, 1228),
    "TPU v5": (459, 2765),
    "TPU v5 lite": (197, 819),
    "TPU v6 lite": (918, 1640),
}
TOPOLOGY = flags.DEFINE_string("topology", "v3:4x4", "Generation, and chips along each axis.")


def main(argv: list[str]) -> None:
    """Prints the figures."""
    del argv
    logging.set_verbosity(logging.WARNING)
    devices = costs.slice_devices(TOPOLOGY.value)
    run = resolve(config_flag.read_config(), devices=devices, needs_data=False)
    tflops, bandwidth = _SPEEDS[devices[0].device_kind]
    for layout, lowered in lower_step(run, run.state_shapes).items():
        compiled = lowered.compile()
        found = costs.measure(compiled)
        moved = count_moved(compiled.as_text(), found["GB moved"] * 1e9)
        figures = {
            "config": run.settings.name,
            "topology": TOPOLOGY.value,
            "layout": layout,
            "arguments_gib": round(found["arguments"], 2),
            "temporaries_gib": round(found["temporary"], 2),
            "tflop": round(found["TFLOP"], 2),
            "gb_moved": round(moved / 1e9, 1),
            "compiler_seconds": found["s"] if found["s"] > 0 else None,
            "limit_seconds": round(max(found["TFLOP"] / tflops, moved / (bandwidth * 1e9)), 3),
        }
        print(json.dumps(figures), flush=True)


if __name__ == "__main__":
    flags.mark_flag_as_required("config")
    config_flag.run(main)
