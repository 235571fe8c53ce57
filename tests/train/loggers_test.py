"""Services that follow a run: MLflow's file store, and Weights & Biases offline."""

import json
import struct
import sys
import time

import pytest

from tests.tiny_run import TINY
from xmodal.core.errors import UserError
from xmodal.train import loggers, loop
from xmodal.train.folder import run_folder

KILLED = 22


@pytest.fixture
def train_twice(config, change_batches, tmp_path, monkeypatch):
    """A function that trains until an error in step 22, and then to the end."""
    monkeypatch.chdir(tmp_path)

    def train(service, between=lambda _: None):
        changed = config.copy_and_resolve_references()
        changed.loggers = ("tensorboard", service)

        def fail(step, batch):
            if step == KILLED:
                raise RuntimeError("killed")
            return batch

        change_batches(fail)
        with pytest.raises(RuntimeError, match="killed"):
            loop.train(changed, str(tmp_path / "run"))
        first = json.loads((tmp_path / "run/loggers.json").read_text())
        between(first[service])
        change_batches(lambda step, batch: batch)
        assert loop.train(changed, str(tmp_path / "run"))
        assert json.loads((tmp_path / "run/loggers.json").read_text()) == first
        assert [*run_folder.load_losses(tmp_path / "run")] == [5, 10, 15, 20, 25, 30]
        metrics = json.loads((tmp_path / "run/test/metrics.json").read_text())
        return first[service], metrics

    return train


@pytest.mark.slow
def test_a_resumed_run_is_one_run_of_mlflow(train_twice, tmp_path, monkeypatch):
    mlflow = pytest.importorskip("mlflow", reason="the extra mlflow is missing")
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"file:{tmp_path}/store")
    client, states = mlflow.MlflowClient(), []
    id_of_run, metrics = train_twice(
        "mlflow", lambda known: states.append(client.get_run(known).info.status)
    )
    assert states == ["FAILED"]
    (run,) = client.search_runs(["0"])
    assert (run.info.run_id, run.info.status) == (id_of_run, "FINISHED")
    assert run.data.params["optimizer.learning_rate"] == "0.01"

    def steps(name):
        return [each.step for each in client.get_metric_history(id_of_run, name)]

    assert steps("train/loss") == [5, 10, 15, 20, 25, 30]
    assert steps(f"{TINY}/t2t/recall_at_10") == [0, 20, 30]
    tag = f"{TINY}/t2t/recall@10"
    assert run.data.metrics[f"test/{TINY}/t2t/recall_at_10"] == pytest.approx(metrics[tag])
    names = [each.path for each in client.list_artifacts(id_of_run)]
    assert names == ["images"]


@pytest.mark.slow
def test_a_resumed_run_is_one_run_of_wandb(train_twice, tmp_path, monkeypatch):
    pytest.importorskip("wandb", reason="the extra wandb is missing")
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setenv("WANDB_SILENT", "true")
    id_of_run, metrics = train_twice("wandb")
    stored = sorted((tmp_path / "wandb").glob(f"offline-run-*/run-{id_of_run}.wandb"))
    assert len(list((tmp_path / "wandb").glob("offline-run-*"))) == len(stored) == 2
    records = [read(path) for path in stored]
    assert [codes for _, _, codes in records] == [[1], [0]]
    rows = [row for history, _, _ in records for row in history]
    assert [r["step"] for r in rows if "train/loss" in r] == [5, 10, 15, 20, 25, 30]
    tag = f"{TINY}/t2t/recall@10"
    assert [r["step"] for r in rows if tag in r] == [0, 20, 30]
    (final,) = (r for r in rows if f"test/{tag}" in r)
    assert final[f"test/{tag}"] == pytest.approx(metrics[tag])
    assert final["step"] == run_folder.best_step(str(tmp_path / "run"))
    kinds = {value for r in rows for name, value in r.items() if name.endswith("/_type")}
    assert kinds == {"image-file"}
    assert [config["optimizer"]["learning_rate"] for _, config, _ in records] == [0.01, 0.01]


def read(path):
    """The rows, the config and the exit code in a datastore of Weights & Biases."""
    from wandb.proto.wandb_internal_pb2 import Record

    rows, config, codes = [], {}, []
    for _ in range(100):  # Its service writes the end of the file after it has answered.
        records = [*map(Record.FromString, read_records(path.read_bytes()))]
        codes = [each.exit.exit_code for each in records if each.HasField("exit")]
        if codes:
            break
        time.sleep(0.1)
    for record in records:
        if items := record.history.item:
            rows.append({x.key or "/".join(x.nested_key): json.loads(x.value_json) for x in items})
        config |= {x.key: json.loads(x.value_json) for x in record.run.config.update if x.key}
    return rows, config, codes


def read_records(content):
    """The records of a log in LevelDB's format, which wandb's Python package no longer reads."""
    start, parts, (block, header) = 7, b"", (32768, 7)
    while start < len(content):
        if block - start % block < header:  # The rest of a block is padding.
            start += block - start % block
            continue
        length, kind = struct.unpack_from("<HB", content, start + 4)
        parts += content[start + header : start + header + length]
        start += header + length
        if kind in (1, 4):  # A full record, or the last part of one.
            yield parts
            parts = b""


@pytest.mark.parametrize("installed", [True, False])
def test_a_missing_package_is_named_before_the_device_is_used(installed, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "wandb").mkdir()  # As Weights & Biases leaves it.
    hidden = [p for p in sys.path if p.endswith("site-packages")]
    monkeypatch.setattr(sys, "path", [p for p in sys.path if p not in hidden])
    monkeypatch.delitem(sys.modules, "wandb", raising=False)
    if installed:
        (tmp_path / "wandb/__init__.py").touch()
        loggers.check_packages(["tensorboard", "wandb"])
    else:
        with pytest.raises(UserError, match=r"'wandb'.* pip install \"xmodal\[wandb\]\""):
            loggers.check_packages(["tensorboard", "wandb"])
