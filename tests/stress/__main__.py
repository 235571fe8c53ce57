"""Stress test of a whole run, which must survive interruptions and damage.

    python -m tests.stress [--interruptions=36] [--steps=720] [--seed=0] [--folder=FOLDER]

A run of an image and a text tower is killed and terminated, sometimes during saves and evaluations;
its newest checkpoint is damaged, its disk fills up, a batch is made NaN, and a second writer
starts. Every start resumes from the newest intact checkpoint. At the end, its parameters, optimizer
state and metrics are bit-identical to those of an undisturbed run, and every step saw the same
batch. A second, short run changes the number of devices at every start; there rounding may differ.
Takes about half an hour on two cores. Prints one line of JSON per run: the counts.
"""

import argparse
import json
import pathlib
import tempfile

import data_prep
from data_prep.build import build
from tests.stress import campaign
from tests.stress.runs import Run, make_randomness


def main() -> None:
    """Stresses both runs."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--interruptions", type=int, default=36)
    parser.add_argument("--steps", type=int, default=720)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--folder", default="")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        root = campaign.folder_of(args.folder or temporary)
        data = prepare(root / "data")
        steps = {"total_steps": args.steps, "evaluate_every": args.steps // 24, "save_every": 5}
        whole = Run(root, "whole", data, **steps)
        campaign.finish(whole)
        randomness = make_randomness(args.seed)
        disturbed = Run(root, "disturbed", data, **steps)
        with campaign.small_disk(disturbed.folder) as is_small:
            campaign.interrupt_often(disturbed, args.interruptions, args.steps * 3 // 4, randomness)
            step = disturbed.saved_steps()[-1]
            campaign.start_second_writer(disturbed, step)
            fill = campaign.fill_disk if is_small else campaign.limit_files
            fill(disturbed, step + args.steps // 100)
            campaign.poison(disturbed, disturbed.saved_steps()[-1] + args.steps // 50)
            campaign.finish(disturbed)
            campaign.check_equal(disturbed, whole)
        print(json.dumps({"run": "disturbed", **disturbed.counts}), flush=True)

        # Short, since rounding differences grow until losses no longer reflect earlier batches.
        total = args.steps // 6
        steps = {"total_steps": total, "evaluate_every": total // 4, "save_every": 5}
        still, moving = (Run(root, name, data, **steps) for name in ("still", "moving"))
        campaign.finish(still)
        few = max(args.interruptions // 4, 1)
        campaign.interrupt_often(moving, few, total, randomness, devices=(8, 2, 1, 4))
        campaign.finish(moving, devices=8)
        campaign.check_equal(moving, still, exactly=False)
        print(json.dumps({"run": "on changing devices", **moving.counts}), flush=True)


def prepare(folder: pathlib.Path) -> pathlib.Path:
    """Builds a small version of the built-in dataset."""
    sizes = {"train": 150, "validation": 25, "test": 25}
    data_prep.builder_class("crisscrossed_shapes").SPLIT_SIZES = sizes
    for config in ("images", "ratings"):
        build("crisscrossed_shapes", config, data_dir=str(folder))
    return folder


if __name__ == "__main__":
    main()
