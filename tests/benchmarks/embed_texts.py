r"""Compares `embed_texts` with sentence-transformers.

    python -m tests.benchmarks.embed_texts --tower=weights/minilm --captions=FILE \
        --sentence_encoder=FOLDER [--texts=1024] [--rounds=3]

FOLDER, in the format of sentence-transformers, is the one that `tower` was converted from. Both
take turns; with `taskset -c 0`, CPU seconds count for a busy machine.
"""

import argparse
import pathlib

import numpy as np
from sentence_transformers import SentenceTransformer

import xmodal
from tests.benchmarks.turns import compare


def main() -> None:
    """Prints the figures."""
    parser = argparse.ArgumentParser()
    for name in ("tower", "captions", "sentence_encoder"):
        parser.add_argument(f"--{name}", required=True)
    parser.add_argument("--texts", type=int, default=1024)
    parser.add_argument("--rounds", type=int, default=3)
    args = parser.parse_args()
    lines = pathlib.Path(args.captions).read_text(encoding="utf-8").splitlines()
    texts = lines[:: max(1, len(lines) // args.texts)][: args.texts]
    model = xmodal.load(args.tower)
    encoder = SentenceTransformer(args.sentence_encoder, device="cpu")
    calls = {
        "ours": lambda: model.embed_texts(texts),
        "sentence_transformers": lambda: encoder.encode(texts, show_progress_bar=False),
    }
    ours, theirs = (np.asarray(call()) for call in calls.values())
    ours /= np.linalg.norm(ours, axis=1, keepdims=True)
    difference = float(abs(ours - theirs).max())
    compare("embed_texts", calls, rounds=args.rounds, count=len(texts), difference=difference)


if __name__ == "__main__":
    main()
