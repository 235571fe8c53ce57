"""Exports a model to a bundle, which embeds without flax, orbax, optax or tensorflow.

    python -m xmodal export --model=runs/quickstart --output=bundles/quickstart

MODEL is a run, or a model or tower of `xmodal convert`, local, gs:// or hf://. `xmodal.load` opens
the bundle; its numbers match the run's to 1e-5. bundle.json describes its contents.
"""

from etils import epath

from xmodal.api.bundles import CARD, KNOWN_PLATFORMS, PLATFORMS
from xmodal.apps.arguments import add_texts, make_parser, name_list
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
    push, of_card = "OWNER/NAME on the Hub to upload the folder to", "for its card, as apache-2.0"
    add_texts(parser, push_to_hub=push, license=of_card)
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
    if args.push_to_hub:
        from xmodal.apps.publishing import push_to_hub

        print(push_to_hub(args.output, args.push_to_hub, license=args.license))


if __name__ == "__main__":
    console.run(main)
