"""Compiles the training step of a config for a TPU slice on a machine without one.

    pip install libtpu
    python -m tests.benchmarks.tpu_compile --config=configs/cxc_multitask.py [--topology=v3:4x4]

Prints one line of JSON: memory, FLOPs and traffic of one core per step, by the TPU compiler.
"""

import json
import os
import time

os.environ.setdefault("TPU_SKIP_MDS_QUERY", "1")
os.environ.setdefault("JAX_PLATFORMS", "cpu")

from absl import app, flags
from jax.experimental import topologies
from ml_collections import ConfigDict, config_flags

from xmodal import mesh as mesh_lib
from xmodal.training import loop, run, schedules
from xmodal.training.state import abstract_state

CONFIG = config_flags.DEFINE_config_file("config", "configs/cxc_multitask.py")
TOPOLOGY = flags.DEFINE_string("topology", "v3:4x4", "Default: the paper's 32 TPU v3 cores.")


def main(argv: list[str]) -> None:
    del argv
    # The length of an epoch changes no step.
    config = ConfigDict(schedules.resolve_epochs(CONFIG.value.to_dict(), 1000))
    topology = topologies.get_topology_desc(platform="tpu", topology_name=TOPOLOGY.value)
    mesh = mesh_lib.make_mesh(topology.devices)
    parts = run.build(config, mesh)
    state = abstract_state(parts.state_init(), mesh, parts.settings.sharding)
    started = time.monotonic()
    compiled = loop.compile_step(parts, state)
    memory, cost = compiled.memory_analysis(), compiled.cost_analysis() or {}
    gib = 2**30
    print(
        json.dumps(
            {
                "config": config.name,
                "topology": TOPOLOGY.value,
                "cores": mesh.size,
                "batch_size": config.batch_size,
                "compile_seconds": round(time.monotonic() - started, 1),
                "state_and_batch_gib": round(memory.argument_size_in_bytes / gib, 3),
                "temporaries_gib": round(memory.temp_size_in_bytes / gib, 3),
                "output_not_aliased_gib": round(
                    (memory.output_size_in_bytes - memory.alias_size_in_bytes) / gib, 3
                ),
                "tflop": round(cost.get("flops", 0.0) / 1e12, 3),
                "gigabytes_moved": round(cost.get("bytes accessed", 0.0) / 1e9, 1),
                "estimated_seconds": cost.get("optimal_seconds"),
            }
        )
    )


if __name__ == "__main__":
    app.run(main)
