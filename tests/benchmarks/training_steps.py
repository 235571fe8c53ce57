"""Compares the training step of every family of image-text matching models with torch.

    python -m tests.benchmarks.training_steps [--family=pvse] [--batch_size=32] [--rounds=5]
        [--padded_to=24]

Models have their paper's sizes, but read 36 stored regions of 2,048 instead of using a CNN;
captions have 8 to 20 words from a vocabulary of 10,000. Ours are padded to --padded_to, by default
the shortest of the configs' `text_lengths`, torch's to the longest caption. The torch modules are
those of the parity tests, but process all texts and sets of a batch in one call. VSRN does not
generate captions here. A step is forward, loss, backward, clipping and update. The two sides take
turns in separate processes. Prints one line of JSON per family: medians of seconds and of CPU
seconds, and the peak resident memory beyond that of the libraries.
"""

import argparse
import dataclasses
import importlib
import json
import math
import multiprocessing
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np

REGIONS, CHANNELS, ROWS, WORDS, MAX_LENGTH = 36, 2048, 10_000, 300, 20
FAMILIES = ("vsepp", "vsrn", "pvse", "pcme", "vse_infinity")


@dataclasses.dataclass(frozen=True)
class Task:
    """A family, its batch size, and the length of our texts."""

    family: str
    batch_size: int
    padded_to: int

    def batch(self) -> dict[str, np.ndarray]:
        """Regions [B, R, C], ids [B, T], lengths [B]."""
        generator = np.random.default_rng(0)
        lengths = generator.integers(8, MAX_LENGTH + 1, self.batch_size)
        ids = generator.integers(1, ROWS, (self.batch_size, MAX_LENGTH))
        ids[np.arange(MAX_LENGTH) >= lengths[:, None]] = 0
        shape = (self.batch_size, REGIONS, CHANNELS)
        regions = generator.random(shape, np.float32)
        return {"regions": regions, "ids": ids, "lengths": lengths}


class Rival:
    """A process that executes one step on request."""

    def __init__(self, make: Callable[[Task], Iterator[int]], task: Task) -> None:
        context = multiprocessing.get_context("spawn")
        self._connection, theirs = context.Pipe()
        self._process = context.Process(target=serve, args=(make, task, theirs), daemon=True)
        self._process.start()
        theirs.close()
        self._name = make.__name__
        self.parameters = self._receive()
        self.seconds: list[float] = []
        self.cpu_seconds: list[float] = []

    def step(self) -> None:
        """Executes another step."""
        self._connection.send(True)
        for found, seconds in zip((self.seconds, self.cpu_seconds), self._receive(), strict=True):
            found.append(seconds)

    def stop(self) -> float:
        """Ends the process, and returns its peak memory in MB."""
        self._connection.send(False)
        peak = self._receive()
        self._process.join()
        return peak

    def _receive(self) -> Any:
        try:
            return self._connection.recv()
        except EOFError:
            self._process.join()
            code = self._process.exitcode
            sys.exit(f"The process of {self._name} ended with exit code {code}; see above.")


def serve(make: Callable[[Task], Iterator[int]], task: Task, connection: Connection) -> None:
    """Answers with the number of trained parameters, the seconds of each step, and the peak."""
    steps = make(task)
    next(steps)  # the libraries are loaded
    before = memory_mb("VmRSS")
    connection.send(next(steps))
    next(steps)
    Path("/proc/self/clear_refs").write_text("5")  # resets the peak, which includes compilation
    while connection.recv():
        started, used = time.perf_counter(), time.process_time()
        next(steps)
        connection.send((time.perf_counter() - started, time.process_time() - used))
    connection.send(memory_mb("VmHWM") - before)


def memory_mb(name: str) -> float:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(name)) / 1024


def step_ours(task: Task) -> Iterator[int]:
    """Yields once the libraries are loaded, then the trained parameter count, then each step."""
    import jax
    from ml_collections import ConfigDict

    from configs import itm
    from xmodal.core import mesh as mesh_lib
    from xmodal.core.reused_memory import compute_in_caller
    from xmodal.train.optimization import run_lengths
    from xmodal.train.resolve import build_run

    yield 0
    compute_in_caller()
    variant = ("regions_gru",) if task.family == "vse_infinity" else ()
    config = importlib.import_module(f"configs.{task.family}").get_config(*variant)
    config = itm.use_regions(config)
    config.batch_size, config.model.image.encoder = task.batch_size, itm.regions()
    config.model.text.encoder.vocab_size = ROWS
    config.data.text.max_length, config.data.text_lengths = task.padded_to, ()
    config.freeze = tuple(path for path in config.freeze if path != "image/encoder/")
    config.init_from.published = ()
    if "generation" in config.tasks:
        del config.tasks["generation"]
    resolved = ConfigDict(run_lengths.resolve_epochs(config.to_dict(), 1))
    mesh = mesh_lib.make_mesh(jax.devices()[:1])
    parts = build_run(resolved, mesh)
    arrays, items = task.batch(), np.arange(task.batch_size, dtype=np.int32)
    ids = np.pad(arrays["ids"], ((0, 0), (0, task.padded_to - MAX_LENGTH)))
    mask = np.arange(task.padded_to) < arrays["lengths"][:, None]
    columns = {
        "image": arrays["regions"],
        "text_ids": ids[:, None],
        "text_mask": mask[:, None],
        "image_id": items,
        "caption_id": items[:, None],
    }
    yield from run_ours(parts, [columns])


def run_ours(
    parts: Any, batches: Sequence[Mapping[str, np.ndarray]], features: Sequence[Any] = ()
) -> Iterator[int]:
    """Yields the number of trained parameters, then the number of each executed step.

    Args:
      parts: the run.
      batches: columns of the batches of the steps, in turn; the first has all that a batch needs.
      features: readers of stored features.
    """
    import jax

    from xmodal.core import mesh as mesh_lib
    from xmodal.core.reused_memory import keep_freed_memory
    from xmodal.train.compiled_step import abstract_batch, compile_step
    from xmodal.train.step.two_lengths import RANK

    state = jax.jit(parts.init_state)(parts.key_data)
    compiled = compile_step(parts, state, features)
    keep_freed_memory(jax.default_backend())
    spec = abstract_batch(parts, features)
    put = [
        mesh_lib.global_batch(
            {name: (batches[0] | batch)[name].astype(spec[name].dtype) for name in spec}
            | {name: column for name, column in batch.items() if name == RANK},
            parts.mesh,
        )
        for batch in batches
    ]
    yield sum(leaf.size for leaf in jax.tree.leaves(state.params))
    for number in range(10**9):
        batch = put[number % len(put)]
        state, scalars = compiled(state, batch, mesh_lib.put_step(number, parts.mesh))
        assert math.isfinite(float(scalars["train/loss"])), scalars
        jax.block_until_ready(state)
        yield number


def step_torch(task: Task) -> Iterator[int]:
    """See `step_ours`."""
    import torch

    sys.path.append(str(Path(__file__).parents[1] / "pretrained"))
    import published_matching as matching
    import published_polysemous as polysemous

    yield 0
    # The parity tests process items one by one.
    matching.last_output = polysemous.last_output = last_outputs
    matching.pool = pool_batch
    parameters, compute_loss = make_torch(torch, matching, polysemous, task)
    for parameter in parameters:
        parameter.data *= 0.1
    options = {"lr": 2e-4, "amsgrad": task.family == "pvse"}
    kind = torch.optim.AdamW if task.family == "vse_infinity" else torch.optim.Adam
    optimizer = kind(parameters, **options)
    arrays = {name: torch.tensor(array) for name, array in task.batch().items()}
    yield sum(parameter.numel() for parameter in parameters)
    number = 0
    while True:
        optimizer.zero_grad()
        loss = compute_loss(arrays["regions"], arrays["ids"], arrays["lengths"])
        loss.backward()
        if task.family != "pcme":
            torch.nn.utils.clip_grad_norm_(parameters, 2.0)
        optimizer.step()
        assert math.isfinite(loss.item()), loss
        number += 1
        yield number


def make_torch(torch: Any, matching: Any, polysemous: Any, task: Task) -> tuple[list, Callable]:
    """Trained parameters, and the function (regions, ids, lengths) -> loss."""

    def to_cells(regions: Any) -> Any:
        return regions.transpose(1, 2)[..., None]

    sizes = {"channels": CHANNELS, "rows": ROWS, "words": WORDS, "width": 1024}
    cnn = torch.nn.Module()
    if task.family == "pcme":
        model, functions, criterion = polysemous.make_pcme(torch, cnn, to_cells, **sizes)
        modules = [model, criterion]
        model.txt_enc.embed.requires_grad_(False)
    elif task.family == "pvse":
        model, functions = polysemous.make_pvse(torch, cnn, to_cells, embeddings=2, **sizes)
        modules = [model]
        model.txt_enc.embed.requires_grad_(False)
    elif task.family == "vsepp":
        modules, functions = matching.make_vsepp(torch, cnn, to_cells, variant="vsepp", **sizes)
    elif task.family == "vsrn":
        modules, functions = matching.make_vsrn(torch, **sizes | {"width": 2048})
    else:
        text = matching.make_bigru(torch, ROWS, WORDS, 1024)
        modules, functions = matching.make_vse_infinity(
            torch, channels=CHANNELS, text=text, width=1024
        )
    for module in modules:
        module.train()

    def compute_loss(regions: Any, ids: Any, lengths: Any) -> Any:
        images, texts = functions.images(regions), functions.texts(ids, lengths)
        if task.family == "pvse":
            return polysemous.torch_pvse_loss(torch, images, texts)
        if task.family == "pcme":
            spreads = [spread for _, spread in (images, texts)]
            samples = [draw(torch, *side) for side in (images, texts)]
            return polysemous.torch_pcme_loss(
                torch, *samples, spreads, criterion, 1e-5, sample_distances
            )
        scores = functions.score(images, texts)
        return task.batch_size * polysemous.torch_hinges(torch, scores, 0.2)

    every = [parameter for module in modules for parameter in module.parameters()]
    return [parameter for parameter in every if parameter.requires_grad], compute_loss


def draw(torch: Any, mean: Any, log_sigma: Any) -> Any:
    """Seven samples per item, [B, 7, D]."""
    noise = torch.randn(len(mean), 7, mean.shape[1])
    return mean[:, None] + log_sigma.exp()[:, None] * noise


def sample_distances(x: Any, y: Any) -> Any:
    """Like `published_polysemous.distances`, with matrix products."""
    import torch

    found = torch.cdist(x.flatten(0, 1), y.flatten(0, 1))
    return found.view(*x.shape[:2], *y.shape[:2]).transpose(1, 2)


def last_outputs(torch: Any, gru: Any, vectors: Any, lengths: Any) -> Any:
    """Like `published_polysemous.last_output`, for a whole batch."""
    outputs = read_packed(torch, gru, vectors, lengths)
    return outputs[torch.arange(len(outputs)), lengths - 1]


def read_packed(torch: Any, gru: Any, vectors: Any, lengths: Any) -> Any:
    rnn = torch.nn.utils.rnn
    packed = rnn.pack_padded_sequence(vectors, lengths, batch_first=True, enforce_sorted=False)
    return rnn.pad_packed_sequence(gru(packed)[0], batch_first=True)[0]


def pool_batch(torch: Any, gpool: Any, tokens: Any, lengths: list[int]) -> Any:
    """Like `published_matching.pool`, for a whole batch, as in the authors' code."""
    lengths, width = torch.tensor(lengths), 32
    tokens = tokens[:, : int(lengths.max())]
    position = torch.arange(tokens.shape[1])[:, None].float()
    rate = torch.exp(torch.arange(0, width, 2).float() * -(math.log(10000.0) / width))
    code = torch.stack([torch.sin(position * rate), torch.cos(position * rate)], -1).flatten(1)
    code = code.expand(len(tokens), -1, -1)
    outputs = read_packed(torch, gpool.gru, code, lengths)
    scores = gpool.linear((outputs[..., :width] + outputs[..., width:]) / 2) / 0.1
    is_padding = (torch.arange(tokens.shape[1]) >= lengths[:, None])[..., None]
    weights = torch.softmax(scores.masked_fill(is_padding, -10_000.0), 1)
    ordered = tokens.masked_fill(is_padding, -10_000.0).sort(1, descending=True)[0]
    pooled = (ordered.masked_fill(is_padding, 0.0) * weights).sum(1)
    return torch.nn.functional.normalize(pooled)


def measure(task: Task, rounds: int) -> dict[str, Any]:
    """Runs both sides in turn."""
    rivals = {"ours": Rival(step_ours, task), "torch": Rival(step_torch, task)}
    for _ in range(rounds):
        for rival in rivals.values():
            rival.step()
    found: dict[str, Any] = dataclasses.asdict(task)
    for name, rival in rivals.items():
        found[f"{name}_parameters"] = rival.parameters
        found[f"{name}_seconds"] = round(statistics.median(rival.seconds), 3)
        found[f"{name}_cpu_seconds"] = round(statistics.median(rival.cpu_seconds), 3)
        found[f"{name}_peak_mb"] = round(rival.stop())
    for share in ("seconds", "cpu_seconds", "peak_mb"):
        found[f"share_of_{share}"] = round(found[f"ours_{share}"] / found[f"torch_{share}"], 2)
    return found


def main() -> None:
    """Prints a line per family."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--family", choices=FAMILIES)
    parser.add_argument("--batch_size", type=int, default=32)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--padded_to", type=int, default=24)
    args = parser.parse_args()
    for family in [args.family] if args.family else FAMILIES:
        task = Task(family, args.batch_size, args.padded_to)
        print(json.dumps(measure(task, args.rounds)), flush=True)


if __name__ == "__main__":
    main()
