"""Exports a model to a bundle, which embeds without flax, orbax, optax or tensorflow.

    python -m xmodal export --model=runs/quickstart --output=bundles/quickstart

MODEL is a run, or a model or tower of `xmodal convert`, local or gs://. `xmodal.load` opens
the bundle; its numbers match the run's to 1e-5. bundle.json describes its contents.
"""

from etils import epath

from xmodal.api.bundles import CARD, KNOWN_PLATFORMS, PLATFORMS
from xmodal.apps.arguments import make_parser, name_list
from xmodal.core import console


@console.readable_errors()
def main() -> None:
    """Exports the model that the command line names."""
    parser = make_parser("export", "Exports a model for use without flax.")
    parser.add_argument("--model", required=True, help="a run, or a folder of converted weights")
    parser.add_argument("--output", required=True, help="the new folder")
    parser.add_argument("--step", default="best", help="a run's step: a number, best or latest")
    parser.add_argument(
        "--platforms",
        type=name_list,
        default=PLATFORMS,
        help=f"some of {','.join(KNOWN_PLATFORMS)}",
    )
    parser.add_argument(
        "--embeddings_only",
        action="store_true",
        help="leave out a cross-encoder, which a bundle cannot carry",
    )
    args = parser.parse_args()
    from xmodal.api.exporting import export_model

    card = export_model(
        args.model,
        args.output,
        step=args.step,
        platforms=args.platforms,
        embeddings_only=args.embeddings_only,
    )
    names = [CARD, *card.files()]
    size = sum((epath.Path(args.output) / name).stat().length for name in names) / 2**20
    print(f"{args.output}: {len(names)} files, {size:.1f} MiB, for {', '.join(card.platforms)}")


if __name__ == "__main__":
    console.run(main)
