"""SemEval STS from the real files in two layouts, and from stand-ins for the official one."""

import numpy as np
import pytest

from data_prep.semeval_sts.rated_sets import SETS, RatedSet
from data_prep.semeval_sts.semeval_files import find_sets
from data_prep.semeval_sts.semeval_sts_dataset_builder import Builder
from tests.data_prep.builds import build

_SPLITS = ("train", "validation", "test")
# Set -> its listed pairs; those without a score are not in the dataset.
_LISTED = {
    RatedSet(2012, "MSRpar", "train", 1, is_optional=True): [
        ("4.25", "A dog ran .", 'He said "yes" .')
    ],
    RatedSet(2012, "SMT", "train", 1, is_optional=True): [],
    RatedSet(2014, "images", "test", 2): [("0", "a", "b"), ("5.000", "c", "d")],
    RatedSet(2016, "headlines", "test", 2): [
        ("", "never", "rated"),
        ("2.5", " ends of sentences ", "differ\u00a0"),
        ("", "nor", "this"),
        ("3", "e", "f"),
    ],
}


def _write_official(folder):
    for rated_set, pairs in _LISTED.items():
        if not pairs:
            continue
        year, name, prefix = rated_set.year, rated_set.name, "STS"
        place = folder / f"STS{year % 100}-en-test"
        lines = [f"{first}\t{second}\n" for _, first, second in pairs]
        if rated_set.split == "train":  # these come with ids
            place = folder / str(year) / "train"
            lines = [f"MSR-{n}\t{line}" for n, line in enumerate(lines)]
        elif year == 2014:
            name = "image"
        elif year == 2016:  # these with notes
            prefix, lines = "STS2016", [f"{line[:-1]}\tfrom x\tfrom y\n" for line in lines]
        place.mkdir(parents=True)
        (place / f"{prefix}.input.{name}.txt").write_text("".join(lines), encoding="utf-8")
        gold = "".join(f"{score}\n" for score, _, _ in pairs)
        (place / f"{prefix}.gs.{name}.txt").write_text(gold)
    (folder / "STS14-en-test" / "STS.input.news.txt").write_text("una\ttarea\n")  # Spanish


@pytest.fixture
def official(tmp_path, monkeypatch):
    for module in ("rated_sets", "semeval_files", "semeval_sts_dataset_builder"):
        monkeypatch.setattr(f"data_prep.semeval_sts.{module}.SETS", tuple(_LISTED))
    monkeypatch.setattr(Builder, "EXPECTED", {str(each): each.pairs for each in _LISTED})
    _write_official(tmp_path)
    return tmp_path


def _splits(folder):
    return {k: list(v) for k, v in Builder(data_dir=folder / "tfds")._splits(folder).items()}


def test_the_official_layout(official):
    builder = build(Builder, official)
    examples = {int(e["pair_id"]): e for e in builder.as_data_source("test")}
    # Ids depend neither on the missing set nor on pairs without a score.
    assert sorted(examples) == [20_000, 20_001, 30_000, 30_001]
    assert [examples[i]["dataset"] for i in sorted(examples)] == [b"images"] * 2 + [
        b"headlines"
    ] * 2
    assert [examples[i]["year_average"] for i in (20_000, 30_000)] == [2014, 2016]
    pair = examples[30_000]
    assert (pair["year"], pair["score"]) == (2016, 2.5)
    assert pair["sentence1"].decode() == "ends of sentences"
    assert pair["sentence2"].decode() == "differ"
    (train,) = builder.as_data_source("train")
    assert (train["sentence1"], train["sentence2"]) == (b"A dog ran .", b'He said "yes" .')
    assert (train["pair_id"], train["year_average"]) == (0, 2012)
    assert builder.info.metadata["absent"] == ["2012 SMT (train)"]


@pytest.mark.slow
def test_the_real_files_hold_what_was_published_in_both_layouts(real_data, tmp_path):
    pasted = find_sets(real_data / "sts" / "semeval")
    (tmp_path / "table").mkdir()
    (tmp_path / "table" / "semeval_sts.csv.gz").symlink_to(
        (real_data / "sts" / "semeval_sts_2012_2016.csv.gz").resolve()
    )
    builder = build(Builder, tmp_path / "table", data_dir=tmp_path / "tfds")
    counts = {split: info.num_examples for split, info in builder.info.splits.items()}
    assert counts == {"train": 1484, "test": 11_794}
    assert builder.info.metadata["absent"] == [
        "2012 MSRvid (train)",
        "2012 MSRvid (test)",
        "2013 SMT (test)",
        *(f"{name} ({split})" for name in ("stsbenchmark", "sick") for split in _SPLITS),
    ]
    assert len(pasted) == 25
    known = {
        SETS.index(rated_set) * 10_000 + n: (rated_set, pair)
        for rated_set, pairs in pasted.items()
        for n, pair in enumerate(pairs)
    }
    assert len(known) == sum(counts.values())
    for split in counts:
        source = builder.as_data_source(split)
        for example in source.__getitems__(range(0, len(source), 5)):
            rated_set, pair = known[int(example["pair_id"])]
            assert (example["year"], split) == (rated_set.year, rated_set.split)
            assert example["dataset"].decode() == rated_set.name
            texts = (example["sentence1"].decode(), example["sentence2"].decode())
            assert (texts, example["score"]) == (pair.sentences, np.float32(pair.score))
