"""Whole runs of a tiny text model on a tiny dataset: stopped, continued, failed."""

import contextlib
import json
import os
import shutil
import signal

import jax
import numpy as np
import pytest

from tests import tiny_encoder as tiny
from tests import tiny_run
from tests.tiny_run import TINY, TOTAL_STEPS
from xmodal.core.errors import UserError
from xmodal.evals.scores import embed
from xmodal.train import loop, preflight
from xmodal.train.folder import checkpoints, folder_lock, run_folder
from xmodal.train.sections import ProfileConfig


@pytest.mark.slow
def test_the_loss_falls(whole):
    _, losses = whole
    assert list(losses) == list(range(TOTAL_STEPS))
    values = list(losses.values())
    assert np.mean(values[-5:]) < 0.8 * np.mean(values[:5])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("number", "last"),
    [(signal.SIGTERM, 17), (signal.SIGINT, TOTAL_STEPS - 1)],
)
def test_a_stopped_run_continues_as_if_nothing_had_happened(
    whole, config, tmp_path, change_batches, number, last
):
    folder, _ = whole

    def stop(step, batch):
        if step == last:
            os.kill(os.getpid(), number)
        return batch

    change_batches(stop)
    handler = signal.getsignal(number)
    assert not loop.train(config, str(tmp_path))
    assert signal.getsignal(number) is handler
    # The step of the signal is finished first.
    assert run_folder.steps(str(tmp_path))[-1] == last + 1
    assert not (tmp_path / "test").exists()

    drawn = []
    change_batches(lambda step, batch: (drawn.append(step), batch)[1])
    assert loop.train(config, str(tmp_path))
    assert drawn == list(range(last + 1, TOTAL_STEPS))
    found, expected = tiny_run.load_state(config, tmp_path), tiny_run.load_state(config, folder)
    tiny.assert_identical(found, expected)
    for part in (found.model_state, found.opt_state["outliers"], found.params["tasks"]):
        assert jax.tree.leaves(part)
    results = [json.loads((f / "test/metrics.json").read_text()) for f in (tmp_path, folder)]
    assert results[0] == results[1]
    assert results[0][f"{TINY}/t2t/recall@10"] > 0


@pytest.fixture
def sigterms():
    """The SIGTERMs that nothing else handled."""
    found = []
    before = signal.signal(signal.SIGTERM, lambda number, frame: found.append(number))
    yield found
    signal.signal(signal.SIGTERM, before)


@pytest.mark.slow
def test_a_signal_during_the_last_write_waits_for_it(config, tmp_path, monkeypatch, sigterms):
    close = checkpoints.Checkpoints.close

    def close_late(self):
        os.kill(os.getpid(), signal.SIGTERM)
        close(self)

    config = config.copy_and_resolve_references()
    config.total_steps, config.optimizer.schedule.warmup_steps = 3, 0
    monkeypatch.setattr(checkpoints.Checkpoints, "close", close_late)
    assert not loop.train(config, str(tmp_path))
    assert sigterms == []
    assert run_folder.steps(str(tmp_path))[-1] == 3
    assert not (tmp_path / "test").exists()


def test_a_signal_during_an_evaluation_is_answered_at_the_next_block(config, tmp_path, monkeypatch):
    progress, embedded = embed.progress, []

    @contextlib.contextmanager
    def report_late(*work, **options):
        def report(count):
            embedded.append(count)
            os.kill(os.getpid(), signal.SIGTERM)
            advance(count)

        with progress(*work, **options) as advance:
            yield report

    monkeypatch.setattr(embed, "progress", report_late)
    assert not loop.train(config, str(tmp_path))
    assert len(embedded) == 1
    # Without metrics, so that the same command evaluates this step.
    assert run_folder.steps(str(tmp_path)) == [0]
    assert run_folder.load_metrics(str(tmp_path), 0) == {}


@pytest.mark.parametrize("run", [preflight.check, loop.train])
def test_a_folder_that_cannot_be_written_is_refused_before_the_dataset(tmp_path, monkeypatch, run):
    for module in (loop, preflight):
        monkeypatch.setattr(module, "resolve", lambda *_, **__: pytest.fail("resolved for nothing"))
    (tmp_path / "run").write_text("mine")
    with pytest.raises(UserError, match=f"Cannot write to {tmp_path}/run/inside: Not a directory"):
        run({}, str(tmp_path / "run/inside"))
    with (
        folder_lock.hold(tmp_path),
        pytest.raises(UserError, match="is being written by another process"),
    ):
        run({}, str(tmp_path))


def test_training_a_finished_run_again_changes_nothing(whole, config, monkeypatch):
    monkeypatch.setattr(loop, "compile_step", None)  # Nothing is left to train.
    folder, _ = whole
    before = {p: p.read_bytes() for p in (folder / "checkpoints").rglob("*") if p.is_file()}
    loop.train(config, str(folder))
    after = {p: p.read_bytes() for p in (folder / "checkpoints").rglob("*") if p.is_file()}
    assert after == before


@pytest.mark.slow
def test_a_run_goes_on_with_another_config_only_where_that_is_asked_for(
    whole, config, tmp_path, change_batches
):
    folder = tmp_path / "run"
    shutil.copytree(whole[0], folder)
    before = (folder / "config.json").read_bytes()
    config = config.copy_and_resolve_references()
    config.total_steps, config.log_every = TOTAL_STEPS + 1, 7
    config.optimizer.learning_rate, config.optimizer.clip_norm = 0.02, None
    drawn = []
    change_batches(lambda step, batch: (drawn.append(step), batch)[1])
    with pytest.raises(UserError) as caught:
        loop.train(config, str(folder))
    assert "  optimizer.learning_rate: 0.01 -> 0.02\n" in str(caught.value)
    assert (folder / "config.json").read_bytes() == before
    assert not drawn
    loop.train(config, str(folder), allow_changes=["optimizer"])
    assert drawn == [TOTAL_STEPS]
    assert (folder / f"config-{TOTAL_STEPS}.json").read_bytes() == before
    saved = run_folder.load_run(str(folder))
    assert (saved.optimizer.learning_rate, saved.log_every) == (0.02, 7)
    # The run's own words remain in its folder.
    assert saved.data.text.vocabulary == str(folder / "vocab.txt")


def test_the_steps_of_the_config_are_traced(tmp_path):
    def trace(config, folder, steps):
        with contextlib.ExitStack() as stack:
            for step in range(steps):
                loop._trace(config, step, str(folder), stack)
                jax.numpy.ones(3).block_until_ready()
        return len(list(folder.glob("plugins/profile/*/*.xplane.pb")))

    # The run ends during the trace.
    assert trace(ProfileConfig(2, 9), tmp_path / "end", 4) == 1
    assert trace(None, tmp_path / "none", 4) == 0
