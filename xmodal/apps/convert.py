"""Converts published weights to a folder that training and evaluation can use.

    python -m xmodal convert --tower=bert --source=PATH --output=DIR
    python -m xmodal convert --model=pcme --source=pcme_coco.pth --output=DIR

PATH is the download, local or gs://: a TensorFlow checkpoint, a SavedModel or TF-Hub folder,
a Hugging Face folder, or a .safetensors, .h5, .npz or torch file. ResNet and EfficientNet
need a --variant. A config then sets `init_from.towers.text = DIR` and has the encoder of
DIR/tower.json, and its head if it has one, in `model.text`.

--model converts both modalities of a released image-text model at once. A config then sets
`init_from.model = DIR`; `configs/released.py` evaluates any such folder.
"""

import re

from xmodal.apps.arguments import make_parser, name_list
from xmodal.core import console
from xmodal.core.errors import UserError
from xmodal.pretrained.variants import CONVERTERS, MODELS, TOWERS


@console.readable_errors()
def main() -> None:
    """Converts the weights that the command line names."""
    parser = make_parser("convert", "Converts published weights.")
    kind = parser.add_mutually_exclusive_group(required=True)
    kind.add_argument("--tower", choices=sorted(TOWERS))
    kind.add_argument("--model", choices=sorted(MODELS))
    parser.add_argument("--source", required=True, help="the published weights, local or gs://")
    parser.add_argument("--output", required=True, help="the new folder")
    variants = "; ".join(
        f"{name}: {', '.join(each.variants)}" for name, each in CONVERTERS.items() if each.variants
    )
    parser.add_argument("--variant", default="", help=f"for weights that have several: {variants}")
    parser.add_argument(
        "--vocabulary",
        default="",
        help="for a model: its words, unless the source has them; for --tower=words: words to keep",
    )
    parser.add_argument(
        "--concepts", default="", help="for --model=cvse: file of `python -m data_prep.concepts`"
    )
    for kind, whose in (("missing", "our"), ("unexpected", "the source's")):
        parser.add_argument(
            f"--allow_{kind}",
            default=[],
            type=name_list,
            metavar="REGEX,...",
            help=f"{kind} arrays to ignore, by {whose} names",
        )
    args = parser.parse_args()
    # The models are slow to import, but --help should be fast.
    from xmodal.pretrained.converters import convert
    from xmodal.pretrained.folder import check_new, save_folder

    allowed = {name: getattr(args, name) for name in ("allow_missing", "allow_unexpected")}
    for name, patterns in allowed.items():
        try:
            list(map(re.compile, patterns))
        except re.error as error:
            raise UserError(f"--{name} has no regular expression: {error}.") from error
    check_new(args.output)
    source = (args.model or args.tower, args.source, args.variant, args.vocabulary)
    made = convert(*source, concepts=args.concepts, **allowed)
    save_folder(args.output, *made)
    size = sum(array.nbytes for array in made[0].values()) / 2**20
    print(f"{args.output}: {len(made[0])} arrays, {size:.1f} MiB; report.txt lists them")
    for note in made[2].notes:
        print(f"Note: {note}")


if __name__ == "__main__":
    console.run(main)
