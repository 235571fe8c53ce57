"""Whole runs of a tiny text model on a tiny dataset: stopped, continued, failed."""

import functools
import json
import os
import resource
import shutil
import signal
import threading
import time

import jax
import numpy as np
import pytest

from tests import tiny_encoder as tiny
from tests import tiny_run
from tests.tiny_run import TINY, TOTAL_STEPS
from xmodal import data
from xmodal.core.errors import UserError
from xmodal.evals.scores import embed
from xmodal.train import loop, preflight, resolve
from xmodal.train.folder import checkpoints, folder_lock, run_folder, run_records
from xmodal.train.sections import ProfileConfig


@pytest.mark.slow
def test_the_loss_falls(whole):
    _, losses = whole
    assert list(losses) == list(range(TOTAL_STEPS))
    values = list(losses.values())
    assert np.mean(values[-5:]) < 0.8 * np.mean(values[:5])


@pytest.mark.slow
def test_a_last_step_that_was_saved_without_metrics_is_evaluated(config, tmp_path):
    config = config.copy_and_resolve_references()
    config.optimizer.schedule = {"name": "constant"}
    config.total_steps, config.checkpoint.every, config.evals[TINY].every = 6, 3, 20
    loop.train(config, str(tmp_path))
    before = checkpoints.read_tree(str(tmp_path), 3, "params")
    assert run_folder.load_metrics(str(tmp_path), 3) == {}
    for left in ("checkpoints/6", "test"):
        shutil.rmtree(tmp_path / left)
    config.total_steps = 3
    loop.train(config, str(tmp_path))
    assert run_folder.load_metrics(str(tmp_path), 3)[config.best_checkpoint.metric] > 0
    after = checkpoints.read_tree(str(tmp_path), 3, "params")
    jax.tree.map(np.testing.assert_array_equal, before, after)


def test_a_run_does_not_go_on_with_other_records(whole, config, tmp_path, monkeypatch):
    folder, _ = whole
    records = json.loads((folder / "records.json").read_text())
    ((name, digits),) = records["train"].items()
    ask = functools.partial(resolve._ask, data.parse(config.data), "train")
    records["train"][name] = data.UNKNOWN_HASH
    run_folder.save_records(str(tmp_path), records)
    found = run_records.check_records(str(tmp_path), ask()[0])
    assert found == {"train": {name: digits}, "examples": 37}
    run_folder.save_records(str(tmp_path), found)
    with monkeypatch.context() as patch:  # A dataset without a hash does not erase a known one.
        patch.setattr(data, "split_hashes", lambda *args: {name: data.UNKNOWN_HASH})
        assert run_records.check_records(str(tmp_path), ask()[0]) == found
    older = {"train": {name: "0123456789abcdef" * 4}, "examples": 37}
    for before, described in (
        (older, f"{name} 0123456789abcdef (37 examples) -> {name} {digits[:16]} (37 examples)"),
        ({"train": {name: data.UNKNOWN_HASH}, "examples": 36}, "(36 examples) -> "),
        ({"train": {name.replace("1.0.0", "0.9.0"): digits}, "examples": 37}, "0.9.0 train"),
    ):
        run_folder.save_records(str(tmp_path), before)
        with pytest.raises(UserError, match="was started with other records") as caught:
            run_records.check_records(str(tmp_path), ask()[0])
        assert described in str(caught.value)
        allowed = run_records.check_records(str(tmp_path), ask()[0], allow_changes=True)
        assert allowed == found
    run_folder.save_records(str(tmp_path), found | {"examples": 4})  # fewer than a batch
    with pytest.raises(UserError, match="add --allow_changes=records to use these"):
        loop.train(config, str(tmp_path))


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
@pytest.mark.parametrize(("total_steps", "last"), [(TOTAL_STEPS, 3), (3, None)])
def test_a_signal_during_the_last_write_waits_for_it(
    config, tmp_path, change_batches, monkeypatch, sigterms, total_steps, last
):
    """A second one after a stop, or the first one at the end of the run."""

    def stop(step, batch):
        if step == last:
            os.kill(os.getpid(), signal.SIGTERM)
        return batch

    close = checkpoints.Checkpoints.close

    def close_late(self):
        os.kill(os.getpid(), signal.SIGTERM)
        close(self)

    change_batches(stop)
    config = config.copy_and_resolve_references()
    config.total_steps, config.optimizer.schedule.warmup_steps = total_steps, 0
    monkeypatch.setattr(checkpoints.Checkpoints, "close", close_late)
    assert not loop.train(config, str(tmp_path))
    assert sigterms == []
    assert run_folder.steps(str(tmp_path))[-1] == (total_steps if last is None else last + 1)
    assert not (tmp_path / "test").exists()


def test_a_signal_during_an_evaluation_is_answered_at_the_next_block(config, tmp_path, monkeypatch):
    embed_group, embedded = embed.Embedder._embed_group, []

    def embed_late(self, compute, side, split, group, advance):
        def report(count):
            embedded.append(count)
            os.kill(os.getpid(), signal.SIGTERM)
            advance(count)

        return embed_group(self, compute, side, split, group, report)

    monkeypatch.setattr(embed.Embedder, "_embed_group", embed_late)
    assert not loop.train(config, str(tmp_path))
    assert len(embedded) == 1
    # Without metrics, so that the same command evaluates this step.
    assert run_folder.steps(str(tmp_path)) == [0]
    assert run_folder.load_metrics(str(tmp_path), 0) == {}


@pytest.mark.slow
def test_a_second_interrupt_stops_at_once(config, tmp_path, change_batches):
    def stop(step, batch):
        if step == 17:
            first = signal.getsignal(signal.SIGINT)
            os.kill(os.getpid(), signal.SIGINT)
            while signal.getsignal(signal.SIGINT) is first:
                time.sleep(0.01)  # Two pending signals count as one.
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(60)  # The interrupt ends it.
        return batch

    change_batches(stop)
    # A shell starts background jobs with SIGINT ignored.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            loop.train(config, str(tmp_path))
    finally:
        signal.signal(signal.SIGINT, before)
    assert run_folder.steps(str(tmp_path)) == [0]


@pytest.mark.slow
def test_a_full_disk_ends_in_one_sentence_and_leaves_the_last_checkpoint(
    config, tmp_path, change_batches
):
    def fill(step, batch):
        if step == 22:  # the checkpoint of step 20 is written
            while run_folder.steps(str(tmp_path)) != [0, 20]:
                time.sleep(0.01)
            resource.setrlimit(resource.RLIMIT_FSIZE, (1000, limits[1]))
        return batch

    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    change_batches(fill)
    try:
        with pytest.raises(Exception, match="File too large"):
            loop.train(config, str(tmp_path))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert run_folder.steps(str(tmp_path)) == [0, 20]
    assert int(tiny_run.load_state(config, tmp_path).step) == 20


@pytest.mark.parametrize("run", [preflight.check, loop.train])
def test_a_folder_that_cannot_be_written_is_refused_before_the_dataset(tmp_path, monkeypatch, run):
    for module in (loop, preflight):
        monkeypatch.setattr(module, "resolve", lambda *_, **__: pytest.fail("resolved for nothing"))
    (tmp_path / "run").write_text("mine")
    for place in (tmp_path / "run", tmp_path / "run/inside", "/proc/run"):
        with pytest.raises(UserError, match=f"Cannot write to {place}"):
            run({}, str(place))
    assert (tmp_path / "run").read_text() == "mine"
    with folder_lock.hold(tmp_path), pytest.raises(UserError, match="is being written by process"):
        run({}, str(tmp_path))


def test_a_run_that_fails_leaves_no_threads_of_its_batches(config, tmp_path, monkeypatch):
    """Also while its error, whose traceback refers to them, is kept."""
    monkeypatch.setattr(loop, "compile_step", _does_not_fit)
    with pytest.raises(UserError, match="does not fit") as kept:
        loop.train(config, str(tmp_path))
    assert kept.tb is not None
    assert not [each for each in threading.enumerate() if each.name.startswith("batches")]


def _does_not_fit(*_):
    assert any(each.name.startswith("batches") for each in threading.enumerate())
    raise UserError("does not fit")


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
    assert "  optimizer.clip_norm: 1.0 -> None\n" in str(caught.value)
    assert (folder / "config.json").read_bytes() == before
    assert not drawn
    loop.train(config, str(folder), allow_changes=["optimizer"])
    assert drawn == [TOTAL_STEPS]
    assert (folder / f"config-{TOTAL_STEPS}.json").read_bytes() == before
    saved = run_folder.load_run(str(folder))
    assert (saved.optimizer.learning_rate, saved.log_every) == (0.02, 7)
    # The run's own words remain in its folder.
    assert saved.data.text.vocabulary == str(folder / "vocab.txt")
    assert (folder / "vocab.txt").read_bytes() == (whole[0] / "vocab.txt").read_bytes()
    assert (
        json.loads((folder / "config.json").read_text())["data"]["text"]["vocabulary"]
        == "vocab.txt"
    )


@pytest.mark.slow
def test_a_second_run_starts_with_the_words_of_the_first(whole, config, tmp_path):
    """Its own dataset would give a different list of the same size."""
    folder = tmp_path / "tfds"
    shutil.copytree(config.data.data_dir, folder)
    (path,) = folder.rglob("vocabulary-*.txt")
    special, words = np.split(np.array(path.read_text().split()), [5])
    path.write_text("".join(f"{word}\n" for word in [*special, *words[::-1]]))
    second = config.copy_and_resolve_references()
    second.data.data_dir, second.total_steps = str(folder), 1
    second.optimizer.schedule.warmup_steps = 0
    second.init_from.run, second.init_from.step = str(whole[0]), "latest"
    loop.train(second, str(tmp_path / "run"))

    def metrics(run_dir, step):
        return run_folder.load_metrics(str(run_dir), step)

    assert metrics(tmp_path / "run", 0) == metrics(whole[0], TOTAL_STEPS)
    before, now = ((each / "vocab.txt").read_text() for each in (whole[0], tmp_path / "run"))
    assert before == now != path.read_text()


@pytest.mark.parametrize("run", [preflight.check, loop.train])
def test_a_metric_that_no_evaluator_reports_is_named_before_step_0(config, tmp_path, run):
    config = config.copy_and_resolve_references()
    config.best_checkpoint.metric = f"{TINY}/t2t/recal@10"
    with pytest.raises(UserError, match=f"config.best_checkpoint.metric; .*'{TINY}/t2t/recall@10'"):
        run(config, str(tmp_path / "run"))
    assert not (tmp_path / "run").exists()


def test_the_steps_of_the_config_are_traced(tmp_path):
    def trace(config, folder, steps):
        with loop.profiler(config, str(folder)) as before:
            for step in range(steps):
                before(step)
                jax.numpy.ones(3).block_until_ready()
        return len(list(folder.glob("plugins/profile/*/*.xplane.pb")))

    assert trace(ProfileConfig(2, 2), tmp_path / "inside", 6) == 1
    # The run ends during the trace.
    assert trace(ProfileConfig(2, 9), tmp_path / "end", 4) == 1
    assert trace(None, tmp_path / "none", 4) == 0
