"""Exports a model: to a bundle, or to the folder that another library publishes.

    python -m xmodal export runs/quickstart --output=bundles/quickstart
    python -m xmodal export runs/quickstart --format=onnx --output=models/quickstart
    python -m xmodal export runs/clip --format=transformers --output=models/clip

MODEL is a run, or a model or tower of `xmodal convert`, local, gs:// or hf://. A bundle embeds
without flax, orbax, optax or tensorflow; `xmodal.load` opens it, and bundle.json describes its
contents. The folders of transformers and open_clip have weights, config, tokenizer and image
processor. All of them match the model to 1e-5. A folder of ONNX needs no JAX and matches it to
1e-4: README.md has the preprocessing, search.py answers queries over an index.
"""

from typing import Any

from xmodal.api.bundles import KNOWN_PLATFORMS, PLATFORMS
from xmodal.apps.arguments import add_texts, make_parser, name_list, require_extra
from xmodal.core import console

_FORMATS = ("bundle", "onnx", "open_clip", "transformers")


@console.readable_errors()
def main() -> None:
    """Exports the model that the command line names."""
    parser = make_parser("export", "Exports a model for use without flax, or in another library.")
    parser.add_argument("model", help="a run, or a folder of weights")
    parser.add_argument("--output", required=True, help="the new folder")
    parser.add_argument("--format", default="bundle", choices=_FORMATS)
    parser.add_argument("--step", default="best", help="a run's step: a number, best or latest")
    parser.add_argument(
        "--tower", default="", choices=("image", "text"), help="one encoder, for transformers"
    )
    parser.add_argument(
        "--platforms",
        type=name_list,
        default=PLATFORMS,
        help=f"of a bundle: some of {','.join(KNOWN_PLATFORMS)}",
    )
    parser.add_argument(
        "--embeddings_only",
        action="store_true",
        help="leave out a cross-encoder, which a bundle cannot carry",
    )
    push, of_card = "OWNER/NAME on the Hub to upload the folder to", "for its card, as apache-2.0"
    add_texts(parser, push_to_hub=push, license=of_card)
    args = parser.parse_args()
    given: dict[str, Any] = {"step": args.step}
    if args.format == "bundle":
        from xmodal.api.exporting import export_model

        given |= {"platforms": args.platforms, "embeddings_only": args.embeddings_only}
        export_model(args.model, args.output, **given)
    elif args.format == "onnx":
        require_extra("onnx", "jax2onnx", "onnxruntime")
        from xmodal.api.onnx_export import export_onnx

        export_onnx(args.model, args.output, embeddings_only=args.embeddings_only, **given)
    else:
        from xmodal.api.publishing import export_published

        given |= {"library": args.format, "tower": args.tower}
        export_published(args.model, args.output, **given)
    print(f"{args.output}: {args.format} of {args.model}")
    if args.push_to_hub:
        from xmodal.apps.hub_upload import push_to_hub

        print(push_to_hub(args.output, args.push_to_hub, license=args.license))


if __name__ == "__main__":
    console.run(main)
