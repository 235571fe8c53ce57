"""Mines hard negatives of a training split with a trained model, for the loss `quintuplet`.

    python -m xmodal mine --model=runs/vsrn --dataset=region_features --config=coco \\
        --output=mined/vsrn
    python -m xmodal.main --config=configs/aoq.py --config.data.mined_negatives=mined/vsrn

For each image the captions that score highest, apart from its own, and for each caption the images,
see `xmodal/data/mined_negatives.py`. A killed command resumes at the first missing block; several
processes share the blocks.
"""

import argparse

from xmodal.base import console


@console.readable_errors()
def main() -> None:
    """Runs the command."""
    args = _parse()
    # They import JAX and TensorFlow, but --help and errors in arguments should be fast.
    from xmodal.base import processes
    from xmodal.cli.negative_tables import write_negatives

    with processes.connected({f"--{name}": value for name, value in vars(args).items()}):
        write_negatives(args)


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="xmodal mine", description="Mines hard negatives with a trained model."
    )
    parser.add_argument("--model", required=True, help="a run, bundle or converted weights")
    parser.add_argument("--step", default="best", help="a run's step: a number, best or latest")
    parser.add_argument("--dataset", required=True, help="the dataset to train on")
    parser.add_argument("--config", default="images", help="config of the dataset")
    parser.add_argument("--split", default="train", help="split of the dataset")
    parser.add_argument("--data_dir", default="", help="folder of prepared datasets")
    parser.add_argument("--manual_dir", default="", help="folder of the dataset's own files")
    parser.add_argument("--ratings_dir", default="", help="folder of CxC's ratings, for --exclude")
    parser.add_argument("--captions", type=_positive, default=300, help="negatives of an image")
    parser.add_argument("--images", type=_positive, default=60, help="negatives of a caption")
    parser.add_argument(
        "--exclude", type=lambda names: names.split(","), default=[],
        help="boards, such as coco_cxc, whose positives are never negatives",
    )  # fmt: skip
    parser.add_argument(
        "--part_size", type=_positive, default=1 << 14, help="items embedded together"
    )
    parser.add_argument(
        "--block_size", type=_positive, default=1024, help="queries and items compared together"
    )
    parser.add_argument("--output", required=True, help="the new folder")
    return parser.parse_args()


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text} is less than 1")
    return number


if __name__ == "__main__":
    console.run(main)
