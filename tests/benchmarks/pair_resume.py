"""Kills the scoring of all pairs of a gallery halfway, resumes it, and compares the scores.

    python -m tests.benchmarks.pair_resume [--images=5000] [--captions=25000]

The scorer is a layer of cross-attention, 8 wide, with random weights, so that COCO's 125 million
pairs take minutes; blocks and files are as large as those of any scorer on an accelerator. A
process kills itself with SIGKILL at the worst moment, when the scores of a block are written and
not yet listed as finished; another resumes in the same cache folder, and a third scores everything
in a folder of its own. Prints a line of JSON for each, and one for the loss.
"""

import argparse
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time
from typing import Any

import numpy as np

from tests.benchmarks import pair_scores as benchmark
from xmodal.evals.scores import pair_scores
from xmodal.evals.scores.pair_scores import PairScores
from xmodal.evals.scores.score_files import FINISHED, MATRIX

TOKENS, WORDS = 2, 1000  # Of an image, or of a text.
SIZES = {"width": 8, "depth": 1, "heads": 1, "mlp_dim": 8}


def main() -> None:
    """Prints the figures, or scores in a process of its own."""
    args = _parse()
    if args.output:
        score(args)
        return
    blocks = -(-args.images // pair_scores._MOST_IMAGES)
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        run(args, "killed", folder / "cache", die_after=blocks // 2)
        (matrix,) = (folder / "cache").glob(f"**/{MATRIX}")
        scores, finished = np.load(matrix, "r"), np.load(matrix.parent / FINISHED, "r")
        kept = np.count_nonzero(finished)
        lost = np.count_nonzero(scores) - np.count_nonzero(scores[finished])
        size = matrix.stat().st_size + (matrix.parent / FINISHED).stat().st_size
        run(args, "resumed", folder / "cache")
        left = sum(path.is_file() for path in folder.glob("cache/**/*"))
        run(args, "uninterrupted", folder / "other")
        one, other = (np.load(folder / f"{name}.npy") for name in ("resumed", "uninterrupted"))
        _print(
            "lost",
            pairs=one.size,
            blocks=blocks,
            mb_on_disk=round(size / 1e6, 1),
            finished=int(kept),
            lost=int(lost),
            lost_blocks=lost / (pair_scores._MOST_IMAGES * args.captions),
            different=int(np.count_nonzero(one != other)),
            files_left=left,
        )


def run(args: argparse.Namespace, name: str, cache: pathlib.Path, die_after: int = 0) -> None:
    """Scores in a process of its own, which may die, and prints its time and memory."""
    command = [
        sys.executable, "-m", "tests.benchmarks.pair_resume", f"--images={args.images}",
        f"--captions={args.captions}", f"--output={cache.parent / name}.npy",
        f"--die_after={die_after}",
    ]  # fmt: skip
    started = time.perf_counter()
    process = subprocess.Popen(command, env=os.environ | {"XDG_CACHE_HOME": str(cache)})
    _, status, used = os.wait4(process.pid, 0)
    code = os.waitstatus_to_exitcode(status)
    if code != (-signal.SIGKILL if die_after else 0):
        raise SystemExit(f"{name}: exit code {code}")
    _print(
        name,
        seconds=round(time.perf_counter() - started, 1),
        cpu_seconds=round(used.ru_utime + used.ru_stime, 1),
        peak_mb=used.ru_maxrss // 1024,
    )


def score(args: argparse.Namespace) -> None:
    """Writes the scores of all pairs [N, M]; or dies, before it lists another block."""
    finish, blocks = PairScores._finish, 0

    def finish_or_die(self: PairScores, images: np.ndarray, pairs: np.ndarray) -> None:
        nonlocal blocks
        if blocks == args.die_after > 0:
            os.kill(os.getpid(), signal.SIGKILL)
        finish(self, images, pairs)
        blocks += 1

    PairScores._finish = finish_or_die  # type: ignore[method-assign]
    pair_scores._SAVED_PAIRS = 0
    rng = np.random.default_rng(0)
    images = rng.normal(size=(args.images, TOKENS, SIZES["width"])).astype(np.float32)
    ids = rng.integers(1, WORDS, (args.captions, TOKENS))
    found = benchmark.make_ours(images, ids, SIZES)()
    np.save(args.output, found.reshape(len(images), len(ids)))


def _print(figure: str, **values: Any) -> None:
    print(json.dumps({"figure": figure, **values}), flush=True)


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("--images", type=int, default=5_000)
    parser.add_argument("--captions", type=int, default=25_000)
    for name, default in (("output", ""), ("die_after", 0)):  # Of the processes.
        parser.add_argument(
            f"--{name}", type=type(default), default=default, help=argparse.SUPPRESS
        )
    return parser.parse_args()


if __name__ == "__main__":
    main()
