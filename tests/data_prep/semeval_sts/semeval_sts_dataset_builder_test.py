"""SemEval STS from the real files in two layouts, and from stand-ins for the official one."""

import pathlib

import numpy as np
import pytest

from data_prep.semeval_sts.rated_sets import SETS, RatedSet
from data_prep.semeval_sts.semeval_files import find_sets
from data_prep.semeval_sts.semeval_sts_dataset_builder import Builder
from tests.data_prep.builds import build
from xmodal.core.errors import UnexpectedFilesError

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


def test_the_first_row_that_cannot_be_used_is_named(official):
    gold = official / "STS14-en-test" / "STS.gs.image.txt"
    text = gold.read_text()
    for wrong in ("5.5", "many"):
        gold.write_text(f"{wrong}\n3\n")
        said = f"STS.input.image.txt line 1: the score is '{wrong}', not from 0 to 5"
        with pytest.raises(UnexpectedFilesError, match=said):
            _splits(official)
    gold.write_text(text)
    lines = official / "STS16-en-test" / "STS2016.input.headlines.txt"
    lines.write_bytes(lines.read_bytes().replace(b"never", b"\xff"))
    with pytest.raises(UnexpectedFilesError, match="headlines.txt line 1: not UTF-8"):
        _splits(official)


def test_files_that_are_short_missing_or_twice_are_named(official):
    gold = official / "STS14-en-test" / "STS.gs.image.txt"
    text = gold.read_text()
    gold.write_text("0\n")
    with pytest.raises(ValueError, match=r"STS\.input\.image\.txt has 2 pairs and .* 1 scores"):
        _splits(official)
    gold.write_text("0\n\n")
    with pytest.raises(ValueError, match=r"2014 images \(test\): 1 instead of 2"):
        _splits(official)
    gold.write_text(text)
    copy = official / "again" / "2014"
    copy.mkdir(parents=True)
    (copy / "STS.input.images.txt").write_text("a\tb\nc\tD\n")
    with pytest.raises(ValueError, match=r"are both 2014 images \(test\) but differ"):
        _splits(official)
    (copy / "STS.input.images.txt").unlink()
    gold.unlink()
    with pytest.raises(FileNotFoundError, match=r"STS\.gs\.image\.txt"):
        _splits(official)
    (official / "STS14-en-test" / "STS.input.image.txt").unlink()
    with pytest.raises(FileNotFoundError, match=r"lacks the sets 2014 images \(test\)"):
        _splits(official)
    (official / "empty").mkdir()
    with pytest.raises(FileNotFoundError, match=r"no STS\.input"):
        find_sets(official / "empty")


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
    assert sum(len(pairs) for each, pairs in pasted.items() if each.year == 2014) == 3750
    averages = {k: len(v) for k, v in builder.info.metadata["year_averages"].items()}
    assert averages == {"2012": 8, "2013": 4, "2014": 6, "2015": 5, "2016": 5}


def test_rows_of_sick_and_the_benchmark_that_cannot_be_used(official, monkeypatch):
    benchmark, sick = RatedSet(0, "stsbenchmark", "test", 1), RatedSet(0, "sick", "test", 1)
    sets = (*_LISTED, benchmark, sick)
    for module in ("rated_sets", "semeval_files", "semeval_sts_dataset_builder"):
        monkeypatch.setattr(f"data_prep.semeval_sts.{module}.SETS", sets)
    (official / "sts-test.csv").write_text('g\tf\t2015\t7\t3.5\tHe said "no\tyes\tnote\n')
    (official / "SICK_test_annotated.txt").write_text(
        "pair_ID\tsentence_A\tsentence_B\trelatedness_score\tentailment_judgment\n"
        "6\ta\tb\t3.3\tNEUTRAL\n8\tc\td\tgood\tNEUTRAL\n"
    )
    found = find_sets(official)
    assert found[benchmark][0].sentences == ('He said "no', "yes")
    assert found[sick][0].score == "3.3"
    assert found[sick][0].where == "SICK_test_annotated.txt line 2"
    # They do not need the other sets.
    alone = official / "alone"
    alone.mkdir()
    (alone / "SICK_test_annotated.txt").write_text(
        "sentence_A\tsentence_B\trelatedness_score\na\tb\t3.3\n"
    )
    monkeypatch.setattr(Builder, "EXPECTED", {str(sick): 1})
    assert [example["score"] for _, example in _splits(alone)["test"]] == [3.3]
    (alone / "SICK_test_annotated.txt").unlink()
    copy = official / "copy"
    copy.mkdir()
    (copy / "sts-test.csv").write_text("other")
    with pytest.raises(ValueError, match=r"are both stsbenchmark \(test\) but differ"):
        find_sets(official)


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("sts-dev.csv", "genre\tf\tyear\tid\tscore\tsentence1\tsentence2\n", "line 1.*'score'"),
        ("2014/tweet-news.test.tsv", "score\tsentence1\tsentence2\n", "line 1: .*'score'"),
        ("sts-dev.csv", "g\tf\ty\t1\tn/a\ta\tb\n", "line 1: the score is 'n/a', not from"),
        ("sts-dev.csv", "g\tf\ty\t1\t3\ta\n", "line 1: malformed row, 6 fields instead of 7"),
    ],
)
def test_a_header_is_shown_with_its_line(tmp_path, monkeypatch, name, text, said):
    sets = (
        RatedSet(0, "stsbenchmark", "validation", 2, is_optional=True),
        RatedSet(2014, "tweet-news", "test", 2, is_optional=True),
    )
    for module in ("rated_sets", "semeval_files", "semeval_sts_dataset_builder"):
        monkeypatch.setattr(f"data_prep.semeval_sts.{module}.SETS", sets)
    monkeypatch.setattr(Builder, "EXPECTED", {str(each): each.pairs for each in sets})
    row = "3\ta\tb\n" if name.endswith(".tsv") else "g\tf\t2015\t7\t3\ta\tb\n"
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).write_text(text + 2 * row)
    with pytest.raises(UnexpectedFilesError, match=f"{pathlib.Path(name).name} {said}"):
        _splits(tmp_path)
    (tmp_path / name).write_text(2 * row)
    assert sum(map(len, _splits(tmp_path).values())) == 2
