"""Converts published weights to a folder that training starts from.

    python -m xmodal.convert_weights --tower=bert --source=PATH --output=DIR

PATH is the download, local or gs://: a TensorFlow checkpoint, a SavedModel or TF-Hub folder,
a Hugging Face folder, or a .safetensors, .h5, .keras or .npz file. ResNet and EfficientNet want
a --variant. A config then says `init_from.towers.text = DIR` and has the encoder of
DIR/tower.json, and its head where it has one, in `model.text`.
"""

import argparse
import re
import sys

from xmodal.config import UserError
from xmodal.pretrained.converters import CONVERTERS, convert
from xmodal.pretrained.folder import check_new, save_tower


def main() -> None:
    """Converts the weights that the command line names."""
    parser = argparse.ArgumentParser(description="Converts published weights to a tower.")
    parser.add_argument("--tower", required=True, choices=sorted(CONVERTERS))
    parser.add_argument("--source", required=True, help="the published weights, local or gs://")
    parser.add_argument("--output", required=True, help="the new folder")
    variants = "; ".join(
        f"{name}: {', '.join(row.variants)}" for name, row in CONVERTERS.items() if row.variants
    )
    parser.add_argument("--variant", default="", help=f"of towers that have several: {variants}")
    for kind, whose in (("missing", "our"), ("unexpected", "the source's")):
        parser.add_argument(
            f"--allow_{kind}",
            default=[],
            type=_patterns,
            metavar="REGEX,...",
            help=f"{kind} arrays that are no error, by {whose} names",
        )
    args = parser.parse_args()
    try:
        check_new(args.output)
        arrays, description, report = convert(
            args.tower,
            args.source,
            args.variant,
            allow_missing=args.allow_missing,
            allow_unexpected=args.allow_unexpected,
            show=print,
        )
        save_tower(args.output, arrays, description, report)
    except UserError as error:
        sys.exit(f"Error: {error}")
    size = sum(array.nbytes for array in arrays.values()) / 2**20
    print(f"{args.output}: {len(arrays)} arrays, {size:.1f} MiB, {description.side()}")


def _patterns(text: str) -> list[str]:
    patterns = [pattern for pattern in text.split(",") if pattern]
    for pattern in patterns:
        try:
            re.compile(pattern)
        except re.error as error:
            raise argparse.ArgumentTypeError(
                f"{pattern!r} is no regular expression ({error})"
            ) from error
    return patterns


if __name__ == "__main__":
    main()
