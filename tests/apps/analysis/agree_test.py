"""The command that compares metrics, from input files to output files."""

import itertools
import json
import math

import numpy as np
import pytest
from scipy import stats

import xmodal
from xmodal.apps.analysis import agree
from xmodal.apps.analysis.agree import compare, format_agreement, kendall_tau_b, tau_intervals
from xmodal.apps.reproduction.entries import read_results
from xmodal.evals.reports.published import PUBLISHED_LABELS, eccv_table_4, eccv_table_5
from xmodal.evals.reports.uncertainty import draw_resamples

METRICS = ["eccv/mean/map@r", "coco5k/mean/recall@1", "pmrp/mean"]


@pytest.fixture
def table(tmp_path):
    path = tmp_path / "table.json"
    path.write_text(json.dumps(eccv_table_4()))
    return str(path)


def test_the_papers_models_give_its_matrix(tmp_path, table):
    text = compare([table], str(tmp_path / "out/meta"), METRICS)
    out = tmp_path / "out/meta"
    assert (out / "bump_chart.png").exists()
    assert (out / "agreement.md").read_text() == text
    assert r"(1) eccv/mean/map@r &  & 0.39 & 0.20 \\" in (out / "agreement.tex").read_text()
    matrix = (
        "|                          | (1) |  (2) |  (3) |\n"
        "| ------------------------ | --: | ---: | ---: |\n"
        "| (1) eccv/mean/map@r      |     | 0.39 | 0.20 |\n"
        "| (2) coco5k/mean/recall@1 |     |      | 0.45 |\n"
        "| (3) pmrp/mean            |     |      |      |\n"
    )
    assert text.count(matrix) == 2  # found and printed
    assert "rankings of 25 models" in text
    assert "FEWER THAN FIVE" not in text
    assert "| PCME CutMix (retrained by ECCV Caption) |   3 |  16 | 2.5 |" in text

    found = json.loads((out / "agreement.json").read_text())
    assert found["metrics"] == METRICS
    assert found["models"] == [[25] * 3] * 3
    assert np.diag(found["tau_b"]) == pytest.approx([1, 1, 1])
    assert found["ranks"]["pmrp/mean"]["PCME CutMix (retrained by ECCV Caption)"] == 2.5


def tau(models, left, right):
    return kendall_tau_b(models, [left, right])[0][0, 1]


def test_table_5_follows_from_table_4():
    models, printed = eccv_table_4(), eccv_table_5()
    # Table 4 has six of the eleven metrics of table 5 for all its models.
    tags = dict.fromkeys(tag for tag, _ in printed)
    whole = [tag for tag in tags if all(tag in row for row in models.values())]
    for left, right in itertools.combinations(whole, 2):
        found = tau(models, left, right)
        if {left, right} == {"eccv/mean/recall@1", "pmrp/mean"}:
            # Two models have the PMRP 57.65, perhaps only after rounding: 0.29 is printed.
            assert f"{found:.3f}" == "0.284"
        else:
            assert f"{found:.2f}" == f"{printed[left, right]:.2f}"
    rows = read_results().of_system("eccv_caption/tau")
    cells = [value.number for row in rows for value in row.measured.values()]
    assert len(cells) == math.comb(len(whole), 2) == 15
    order = {tag: place for place, tag in enumerate(dict.fromkeys(tag for tag, _ in printed))}
    pairs = [(a, b) for a, b in itertools.combinations(sorted(whole, key=order.get), 2)]
    assert [round(tau(models, *pair), 2) for pair in pairs] == cells


def test_tau_and_its_intervals_are_those_of_scipy():
    rng = np.random.default_rng(0)
    values = rng.integers(6, size=(9, 3)).astype(float)  # with ties
    values[[1, 4], 2] = np.nan
    tags = ["a/recall@1", "a/median_rank", "b/recall@1"]
    models = {str(n): dict(zip(tags, row, strict=True)) for n, row in enumerate(values.tolist())}
    quality = values * [1, -1, 1]

    def slow(rows):
        found = []
        for pair in itertools.combinations(range(3), 2):
            both = rows[~np.isnan(rows[:, pair]).any(axis=1)]
            found.append(stats.kendalltau(*both[:, pair].T).statistic)
        return found

    above = np.triu_indices(3, 1)
    found, counts = kendall_tau_b(models, tags)
    assert found[above] == pytest.approx(slow(quality))
    assert pytest.approx(found) == found.T
    assert np.diag(found).tolist() == [1, 1, 1]
    assert counts.tolist() == [[9, 9, 7], [9, 9, 7], [7, 7, 7]]
    drawn = draw_resamples(9, 1000, 0).astype(int)
    taus = [slow(quality.repeat(each, axis=0)) for each in drawn]
    for limit, share, method in zip(
        tau_intervals(models, tags), (2.5, 97.5), ("lower", "higher"), strict=True
    ):
        assert limit[above] == pytest.approx(np.nanpercentile(taus, share, 0, method=method))


def test_the_papers_table_stands_only_beside_its_labels():
    models, heading = eccv_table_4(), "ECCV Caption paper, table 5"
    limits = tau_intervals(models, METRICS)
    assert heading in format_agreement(models, METRICS, PUBLISHED_LABELS, limits)
    own = {**PUBLISHED_LABELS, "eccv": "beef"}
    assert format_agreement(models, METRICS, own, limits).count("| 0.39 | 0.20 |") == 1  # ours
    assert heading not in format_agreement(models, METRICS[:2], own, limits[:, :2, :2])


IMAGES, CAPTIONS = np.arange(1, 9), np.arange(10, 26)


@pytest.fixture
def label_sets(tmp_path):
    """Two folders of labels of eight images with two captions each; the second has a name."""
    rng, folders = np.random.default_rng(0), [tmp_path / "first", tmp_path / "second"]
    for folder in folders:
        folder.mkdir()
        own = {str(caption): [int(IMAGES[n // 2])] for n, caption in enumerate(CAPTIONS)}
        (folder / "original_caption_to_image.json").write_text(json.dumps(own))
        for name, queries, items in (
            ("image_to_caption", IMAGES, CAPTIONS),
            ("caption_to_image", CAPTIONS, IMAGES),
        ):
            lists = {str(each): rng.choice(items, 3, replace=False).tolist() for each in queries}
            (folder / f"eccv_{name}.json").write_text(json.dumps(lists))
    (folders[1] / "study.json").write_text('{"name": "mine@2026-11"}')
    return [str(folder) for folder in folders]


@pytest.fixture
def files(tmp_path):
    rng, found = np.random.default_rng(1), []
    ids = {"image_ids": IMAGES, "caption_ids": CAPTIONS}
    for name in ("a", "b"):
        vectors = {f"{key[:-4]}_embeddings": rng.normal(size=(len(x), 4)) for key, x in ids.items()}
        np.savez(tmp_path / f"{name}.npz", **ids, **vectors)
        found.append(str(tmp_path / f"{name}.npz"))
    np.savez(tmp_path / "c.npz", **ids, scores=rng.normal(size=(8, 16)))
    return [*found, f"third={tmp_path / 'c.npz'}"]


def test_files_are_evaluated_on_several_label_sets(tmp_path, files, label_sets, monkeypatch):
    out = tmp_path / "out"
    words = [f"--models={','.join(files)}", f"--annotations={','.join(label_sets)}"]
    monkeypatch.setattr("sys.argv", ["agree", *words, "--similarity=cosine", f"--output={out}"])
    agree.main()
    found = json.loads((out / "agreement.json").read_text())
    text = (out / "agreement.md").read_text()
    assert "**FEWER THAN FIVE MODELS" in text
    assert "table 5" not in text
    names = ("first", "mine@2026-11")
    titles = [f"{benchmark} ({name})" for name in names for benchmark in ("coco5k", "eccv")]
    assert {*found["labels"]} == {*titles}
    assert {tag.split("/")[0] for tag in found["metrics"]} == {*titles}
    given = {"embeddings": files[0], "similarity": "cosine"}
    values = []
    for name, labels in zip(names, label_sets, strict=True):
        evaluation = xmodal.evaluate(**given, annotations=labels)
        facts = json.loads((out / labels.rpartition("/")[2] / "a/benchmarks.json").read_text())
        for result in evaluation.results:
            known = facts[result.name]
            assert (known["label_set"], known["label_hash"]) == (name, result.label_hash)
            assert found["labels"][f"{result.name} ({name})"] == result.label_hash
        assert f"\n## eccv ({name})\n" in evaluation.report()
        values.append(evaluation.metrics["eccv/mean/map@r"])
    assert values[0] != values[1]
    ranks = found["ranks"]["eccv (mine@2026-11)/mean/map@r"]
    best = {x: json.loads((out / f"second/{x}/metrics.json").read_text()) for x in ranks}
    order = sorted(ranks, key=lambda model: -best[model]["eccv/mean/map@r"])
    assert sorted(ranks, key=ranks.get) == order
    # The folders are results like any others, so their agreement is the same.
    folders = [str(out / name / model) for name in ("first", "second") for model in sorted(ranks)]
    assert compare(folders, str(tmp_path / "again")) == text


def test_label_sets_and_models_with_one_name_are_refused(tmp_path):
    for folder, value, digits in (("x/a", 1, "beef"), ("y/a", 2, "beef"), ("y/b", 3, "cafe")):
        place = tmp_path / folder
        place.mkdir(parents=True)
        (place / "metrics.json").write_text(json.dumps({"eccv/mean/map@r": value}))
        facts = {"eccv": {"label_set": "mine", "label_hash": digits}}
        (place / "benchmarks.json").write_text(json.dumps(facts))
    for other, said in (("y/a", "Two models are called 'a'"), ("y/b", r"eccv \(mine\) differ")):
        with pytest.raises(xmodal.UserError, match=said):
            compare([str(tmp_path / "x/a"), str(tmp_path / other)], str(tmp_path / "out"))
