"""Mines hard negatives of a training split with a trained model, for the loss `quintuplet`.

    python -m xmodal mine --model=runs/vsrn --dataset=region_features --config=coco \\
        --output=mined/vsrn
    python -m xmodal.main --config=configs/aoq.py --config.data.mined_negatives=mined/vsrn

For each image the captions that score highest, apart from its own, and for each caption the images,
see `xmodal/data/mined_negatives.py`. A killed command resumes at the first missing block; several
processes share the blocks.
"""

from xmodal.apps.arguments import add_dataset, make_parser, name_list, positive_int
from xmodal.core import console


@console.readable_errors()
def main() -> None:
    """Runs the command."""
    parser = make_parser("mine", "Mines hard negatives with a trained model.")
    parser.add_argument("--model", required=True, help="a run, bundle or converted weights")
    parser.add_argument("--step", default="best", help="a run's step: a number, best or latest")
    add_dataset(parser, "the dataset to train on", required=True, split="train")
    parser.add_argument("--ratings_dir", default="", help="folder of CxC's ratings, for --exclude")
    parser.add_argument("--captions", type=positive_int, default=300, help="negatives of an image")
    parser.add_argument("--images", type=positive_int, default=60, help="negatives of a caption")
    parser.add_argument(
        "--exclude",
        type=name_list,
        default=[],
        help="benchmarks, such as coco_cxc, whose positives are never negatives",
    )
    parser.add_argument(
        "--block_size", type=positive_int, default=1024, help="queries of a file of blocks"
    )
    parser.add_argument("--output", required=True, help="the new folder")
    args = parser.parse_args()
    # They import JAX and TensorFlow, but --help and errors in arguments should be fast.
    from xmodal.apps.negative_tables import write_negatives
    from xmodal.core import processes

    with processes.connected({f"--{name}": value for name, value in vars(args).items()}):
        write_negatives(args)


if __name__ == "__main__":
    console.run(main)
