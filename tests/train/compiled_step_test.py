"""The step compiled for several lengths of texts."""

import jax
import numpy as np
import pytest

from tests import tiny_encoder as tiny
from tests import tiny_run
from xmodal import data
from xmodal.core import mesh as mesh_lib
from xmodal.train import loop
from xmodal.train.compiled_step import abstract_batch, compile_step, lower_step
from xmodal.train.folder.compute import read_starts
from xmodal.train.optimization.schedules import make_schedule, read_lengths

LENGTHS = (3, 4)


def make_parts(lengths=()):
    config = tiny.make_config()
    config.data.text_lengths = lengths
    return tiny.make_parts(config, devices=2)


@pytest.mark.slow
def test_a_batch_of_short_texts_makes_the_same_step():
    batch = tiny.make_batch()
    for name in ("text_ids", "text_mask"):
        batch[name][:, :, 3:] = 0
    results, flops = [], []
    for lengths in ((), LENGTHS[:1]):
        parts = make_parts(lengths)
        compiled = compile_step(parts, tiny.start(parts))
        cut = data.cut_texts(batch, 3) if lengths else batch
        on_devices = mesh_lib.global_batch({name: cut[name] for name in parts.batch}, parts.mesh)
        flops.append(compiled.flops(on_devices))
        number = mesh_lib.put_step(0, parts.mesh)
        results.append(tiny.copy(compiled(tiny.start(parts), on_devices, number)))
    (padded, scalars), (short, short_scalars) = results
    jax.tree.map(
        lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5),
        (padded.params, scalars),
        (short.params, short_scalars),
    )
    assert flops[1] < 0.8 * flops[0] == 0.8 * compiled.most_flops


@pytest.mark.slow
def test_there_is_one_program_per_length():
    parts = make_parts((*LENGTHS, tiny.TOKENS, 99))
    compiled = compile_step(parts, tiny.start(parts))
    batch = abstract_batch(parts)
    assert batch["text_mask"].shape[2] == tiny.TOKENS
    counted = [compiled.flops(data.cut_texts(batch, length)) for length in (*LENGTHS, tiny.TOKENS)]
    assert counted == sorted(set(counted))
    with pytest.raises(KeyError):
        compiled.flops(data.cut_texts(batch, 5))


@pytest.mark.slow
def test_runs_of_other_lengths_and_seeds_share_programs_and_have_their_own_rates():
    texts, rates = [], []
    for total, warmup, seed in ((7, 2, 0), (9, 3, 2**40)):
        config = tiny.make_config()
        config.seed = seed
        config.total_steps = total
        config.optimizer.schedule = {"name": "cosine", "warmup_steps": warmup}
        parts = tiny.make_parts(config)
        state = tiny.start(parts)
        (lowered,) = lower_step(parts, state).values()
        texts.append(lowered.as_text())
        # The rates of a program that has the lengths as constants.
        section = parts.settings.optimizer.schedule
        rate = jax.jit(make_schedule(section, 0.1, total))
        lengths = read_lengths(section, total)
        rates.append([float(rate(step, lengths)) for step in range(total)])
        expected = [float(rate(step, None)) for step in range(total)]
        # XLA divides by constants with their reciprocals.
        assert rates[-1] == pytest.approx(expected, rel=1e-5)
    assert texts[0] == texts[1]
    assert rates[0] != rates[1][:7]


@pytest.mark.slow
def test_a_run_takes_short_texts_where_it_can(config, tmp_path, monkeypatch):
    config = config.copy_and_resolve_references()
    config.update({"total_steps": 8, "data": {"text_lengths": (8, 10)}})
    config.evals[tiny_run.TINY].every = 0
    seen, make_batches = [], loop.make_batches

    def watched(*arguments):
        for batch in make_batches(*arguments):
            seen.append((batch["text_mask"].shape[2], int(batch["text_mask"].sum(-1).max())))
            yield batch

    monkeypatch.setattr(loop, "make_batches", watched)
    losses = tiny_run.train(config, tmp_path)
    assert len(losses) == 8
    assert all(
        length == next(at for at in (8, 10, 12) if at >= longest) for length, longest in seen
    )
    assert len({length for length, _ in seen}) > 1
    (start,) = read_starts(str(tmp_path))
    card = (tmp_path / "model_card.md").read_text()
    assert f"at most {start.flops_per_step / 1e9:.3g} GFLOP per step and device" in card
    assert "At most " in card


@pytest.mark.slow
def test_a_run_with_short_texts_apart_has_the_same_losses(config, tmp_path, change_batches):
    config = config.copy_and_resolve_references()
    config.update({"total_steps": 4, "batch_size": 32, "accumulation_steps": 2})
    config.evals[tiny_run.TINY].every = 0
    config.model.text.encoder.dropout, config.model.text.projection.batch_norm = 0.0, False
    ranked, losses = set(), []

    def watch(step, batch):
        if "text_rank" in batch:
            ranked.add(step)
        return batch

    change_batches(watch)
    for short in (None, {"length": 10, "share": 0.5}):
        assert not ranked
        config.data.short_texts = short
        losses.append(tiny_run.train(config, tmp_path / str(short is None)))
    assert ranked
    assert losses[1] == pytest.approx(losses[0], rel=1e-5)
