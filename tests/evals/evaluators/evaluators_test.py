"""Evaluators of sentence pairs, random pools and relations against plain loops; their options."""

import dataclasses

import numpy as np
import pytest
import scipy.stats

from tests.evals.tiny_split import TinySplit
from xmodal.config import UserError
from xmodal.evals import judge, load_embeddings, make_evaluator, read_options, save_embeddings
from xmodal.evals.inputs.sources import Embeddings, Predictions
from xmodal.evals.reports.store import load_ranks
from xmodal.evals.reports.summary import summarize
from xmodal.evals.results import evaluator_tag

SIDES = ("image", "text")


def options_of(**section):
    (options,) = read_options({"x": section}).values()
    return options


def make_split(records=40, captions=1, seed=0, **fields):
    """Records with ids in no order."""
    generator = np.random.default_rng(seed)
    image_ids = generator.permutation(1000)[:records]
    return TinySplit(
        image_ids=image_ids,
        caption_ids=generator.permutation(9000)[: captions * records],
        caption_image_ids=np.repeat(image_ids, captions),
        ratings={},
        **fields,
    )


def make_source(split, seed=1, **fields):
    """Embeddings whose captions lean to their images, items in another order."""
    generator = np.random.default_rng(seed)
    images = generator.normal(size=(len(split.image_ids), 6)).astype(np.float32)
    row = {int(image): i for i, image in enumerate(split.image_ids)}
    owner = np.array([row[int(image)] for image in split.caption_image_ids])
    captions = images[owner] + 2.5 * generator.normal(size=(len(owner), 6)).astype(np.float32)
    at, text_at = generator.permutation(len(images)), generator.permutation(len(captions))
    return Embeddings(
        "here",
        split.image_ids[at],
        images[at],
        split.caption_ids[text_at],
        captions[text_at],
        "cosine",
        **fields,
    )


def cosine(x, y):
    return x @ y / np.linalg.norm(x) / np.linalg.norm(y)


def vector_of(source, kind, item):
    ids, vectors = (
        (source.image_ids, source.images)
        if kind == "image"
        else (source.caption_ids, source.captions)
    )
    return vectors[list(ids).index(item)].astype(np.float64)


def test_own_pictures_in_the_layout_of_coco_are_not_ms_coco():
    split = make_split(records=20, captions=5, name="coco_captions")
    evaluator = make_evaluator("coco", options_of(type="boards"), split, SIDES)
    report = judge(evaluator, make_source(split), name="ours").report()
    assert "## coco5k\n\nThe items or labels are not those of the published test split" in report
    assert not {"MS-COCO 5K", "CLIP", "VSE++"} & {*report.split("|"), *report.split()}
    assert "| ours " in report
    # Boards without their labels are named, as those of a file are.
    assert "Left out coco1k: coco_captions lacks the labels 'folds' (coco_test_ids.npy)." in report
    assert "Left out eccv: coco_captions lacks the labels 'eccv' (eccv_image_to_caption" in report


def labels_of(records):
    """Every label column that an evaluator reads."""
    generator = np.random.default_rng(3)
    return {
        "score": generator.uniform(0, 5, records).round(1),
        "set": generator.choice(["images2014", "belief2015", "old"], records),
        "average": generator.choice([0, 2014, 2015], records),
        "relations": generator.integers(0, 2, (records, 3)),
    }


@pytest.mark.parametrize("sides", [SIDES, ("text",)])
@pytest.mark.parametrize("name", ["crisscrossed_shapes", "coco_captions"])
def test_the_tags_of_boards_are_those_of_their_results(name, sides):
    generator = np.random.default_rng(0)
    split = make_split(captions=3, name=name)
    ids = {"text": split.caption_ids, "image": split.image_ids}
    ratings = {
        task: {
            "left_ids": generator.choice(ids[left], 60),
            "right_ids": generator.choice(ids[right], 60),
            "scores": generator.uniform(0, 5, 60).astype(np.float32),
        }
        for task, (left, right) in {"sts": ("text", "text"), "sits": ("text", "image")}.items()
    }
    split = dataclasses.replace(split, ratings=ratings)
    source = make_source(split)
    if "image" not in sides:
        source = dataclasses.replace(source, image_ids=None, images=None)
    evaluator = make_evaluator("x", options_of(type="boards"), split, sides)
    found = summarize(evaluator.run(source), intervals=False)
    assert len(found) > 8
    assert sorted(evaluator.tags(sides)) == sorted(found)


@pytest.mark.parametrize(
    ("captions", "section"),
    [
        (2, {"type": "pairs"}),
        (1, {"type": "pools", "size": 9, "repeats": 2, "directions": ("i2t", "t2i")}),
        (1, {"type": "pools", "size": 20, "repeats": 2, "without": ("a", "c")}),
        (1, {"type": "relations", "task": "task", "select": (0, 2)}),
    ],
)
def test_the_tags_of_numbers_are_those_of_their_results(captions, section):
    names = {"relations": ["a", "b", "c"]}
    split = make_split(captions=captions, labels=labels_of(40), label_names=names)
    width = 2  # of the selected relations
    predictions = Predictions(
        np.zeros((len(split.image_ids), width)), np.zeros((len(split.caption_ids), width))
    )
    evaluator = make_evaluator("x", options_of(**section), split, SIDES)
    found = summarize(
        evaluator.run(make_source(split, predictions={"task": predictions})), intervals=False
    )
    assert sorted(evaluator.tags(SIDES)) == sorted(found)


def test_sentence_pairs_set_by_set():
    sets = np.array(["images2014"] * 15 + ["belief2015"] * 10 + ["OnWN2014"] * 12 + ["old"] * 3)
    gold = np.random.default_rng(5).uniform(0, 5, 40).round(1)
    labels = {
        "score": gold,
        "set": sets,
        "average": np.array([2014] * 15 + [2015] * 10 + [2014] * 12 + [0] * 3),
    }
    split = make_split(captions=2, labels=labels)
    source = make_source(split)
    evaluator = make_evaluator("sts", options_of(type="pairs"), split, ["text"])
    (found,) = evaluator.run(source)
    ends = split.caption_ids.reshape(-1, 2)
    scores = [cosine(*(vector_of(source, "text", c) for c in pair)) for pair in ends]
    expected = {}
    for name in ("images2014", "belief2015", "OnWN2014", "old"):
        rows = sets == name
        x, y = np.array(scores)[rows], gold[rows]
        expected[f"{name}/pearson"] = np.corrcoef(x, y)[0, 1]
        ranks = scipy.stats.rankdata(x), scipy.stats.rankdata(y)
        expected[f"{name}/spearman"] = np.corrcoef(*ranks)[0, 1]
        expected[f"{name}/pairs"] = rows.sum()
    year = np.isin(sets, ["images2014", "OnWN2014"])
    x, y = np.array(scores)[year], gold[year]
    expected["all2014/pearson"] = np.corrcoef(x, y)[0, 1]
    ranks = scipy.stats.rankdata(x), scipy.stats.rankdata(y)
    expected["all2014/spearman"] = np.corrcoef(*ranks)[0, 1]
    for metric in ("pearson", "spearman"):
        expected[f"avg2015/{metric}"] = expected[f"belief2015/{metric}"]
        expected[f"all2015/{metric}"] = expected[f"belief2015/{metric}"]
        both = [expected[f"{name}/{metric}"] for name in ("images2014", "OnWN2014")]
        expected[f"avg2014/{metric}"] = sum(both) / 2
    assert summarize([found], intervals=False) == pytest.approx(expected, abs=1e-6)
    evaluation = judge(evaluator, source, name="model", evaluator_name="sts")
    assert evaluation.tagged["sts/avg2014/pearson"] == found.metrics["avg2014/pearson"]
    low, high = (found.metrics[f"avg2014/pearson_{end}"] for end in ("low", "high"))
    assert low < found.metrics["avg2014/pearson"] < high
    value = f"{found.metrics['avg2014/pearson']:.4f}"
    (row,) = (line for line in evaluation.report().splitlines() if line.startswith("| avg2014 "))
    assert f"| {value} [{low:.3f}, {high:.3f}] |" in row


@dataclasses.dataclass
class Sentences(TinySplit):
    """A split whose captions have texts of their own."""

    texts: tuple = ()

    @property
    def caption_texts(self):
        return self.texts


def correlated_pairs(count, texts=None, copies=1):
    """Pairs of two sets whose cosines are their gold scores and noise."""
    generator = np.random.default_rng(8)
    gold = generator.uniform(0, 5, count)
    angles = np.arccos(np.clip(gold / 6 + 0.15 * generator.normal(size=count), -1, 1))
    first = np.tile([1.0, 0.0], (count, 1))
    second = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    vectors = np.stack([first, second], axis=1)
    vectors, gold = np.repeat(vectors, copies, axis=0), np.repeat(gold, copies)
    records = len(gold)
    split = Sentences(
        image_ids=np.arange(records),
        caption_ids=np.arange(2 * records),
        caption_image_ids=np.repeat(np.arange(records), 2),
        ratings={},
        labels={
            "score": gold,
            "set": np.where(np.arange(records) % 3 == 0, "a", "b"),
            "average": np.full(records, 2014),
        },
        texts=texts or [str(k // (2 * copies) * 2 + k % 2) for k in range(2 * records)],
    )
    ids = np.arange(2 * records)
    return split, Embeddings(
        "here", None, None, ids, vectors.reshape(-1, 2).astype(np.float32), "cosine"
    )


def numbers_of(split, source):
    evaluator = make_evaluator("sts", options_of(type="pairs"), split, ["text"])
    return evaluator.run(source)[0].metrics


@pytest.mark.parametrize("metric", ["pearson", "spearman"])
def test_intervals_of_pairs_are_those_of_a_bootstrap(metric):
    split, source = correlated_pairs(300)
    found = numbers_of(split, source)
    scores = (source.captions[::2] * source.captions[1::2]).sum(1)
    gold, sets = split.labels["score"], split.labels["set"]
    generator, drawn = np.random.default_rng(0), []
    function = {"pearson": scipy.stats.pearsonr, "spearman": scipy.stats.spearmanr}[metric]
    for _ in range(2000):
        each = []
        for name in "ab":
            rows = generator.choice(np.flatnonzero(sets == name), (sets == name).sum())
            each.append(function(scores[rows], gold[rows]).statistic)
        drawn.append([*each, np.mean(each)])
    for name, values in zip(("a", "b", "avg2014"), np.transpose(drawn), strict=True):
        tag = f"{name}/{metric}"
        width = found[f"{tag}_high"] - found[f"{tag}_low"]
        expected = np.subtract(*np.quantile(values, [0.975, 0.025]))
        assert width == pytest.approx(expected, rel=0.12)


def test_pairs_that_come_twice_say_no_more_than_once():
    once, twice = (numbers_of(*correlated_pairs(90, copies=copies)) for copies in (1, 2))
    for end in ("", "_low", "_high"):
        tag = f"all2014/pearson{end}"
        assert twice[tag] == pytest.approx(once[tag], abs=1e-6)
    split, source = correlated_pairs(90, copies=2, texts=[str(k) for k in range(360)])
    assert numbers_of(split, source)["all2014/pearson_low"] > twice["all2014/pearson_low"] + 0.005


def test_a_constant_set_has_no_correlation():
    labels = {"score": np.ones(3), "set": np.array(["a"] * 3), "average": np.full(3, 2014)}
    split = make_split(records=3, captions=2, labels=labels)
    evaluator = make_evaluator("sts", options_of(type="pairs"), split, ["text"])
    (found,) = evaluator.run(make_source(split))
    assert np.isnan(found.metrics["avg2014/pearson"])


def pool_ranks(source, split, images, captions):
    """Rank of each caption's own image, one pair after the other."""
    owner = dict(zip(split.caption_ids, split.caption_image_ids, strict=True))
    ranks = []
    for caption in captions:
        query = vector_of(source, "text", caption)
        scores = {image: cosine(query, vector_of(source, "image", image)) for image in images}
        ranks.append(1 + sum(x > scores[owner[caption]] for x in scores.values()))
    return np.array(ranks)


@pytest.mark.parametrize("captions", [1, 3])
def test_pools(captions):
    split = make_split(records=41, captions=captions)
    source = make_source(split)
    section = {"type": "pools", "size": 16, "repeats": 4, "seed": 7}
    evaluator = make_evaluator("cite", options_of(**section), split, SIDES)
    (found,) = evaluator.run(source)
    medians, recalls = [], []
    for images, texts in evaluator._pools:
        assert len(set(images)) == 16
        np.testing.assert_array_equal(split.caption_image_ids[texts], split.image_ids[images])
        ranks = pool_ranks(source, split, split.image_ids[images], split.caption_ids[texts])
        medians.append(np.median(ranks))
        recalls.append(100 * np.mean(ranks <= 5))
    assert any(median % 1 for median in medians)  # halves are kept
    assert found.metrics["t2i/median_rank"] == pytest.approx(np.mean(medians))
    assert found.metrics["t2i/median_rank_std"] == pytest.approx(np.std(medians))
    assert found.metrics["t2i/recall@5"] == pytest.approx(np.mean(recalls))
    assert not any(tag.startswith("i2t") for tag in found.metrics)
    # The order of records and items plays no part.
    order = np.random.default_rng(3).permutation(41 * captions)
    turned = dataclasses.replace(
        split,
        image_ids=split.image_ids[::-1],
        caption_ids=split.caption_ids[order],
        caption_image_ids=split.caption_image_ids[order],
    )
    (again,) = make_evaluator("cite", options_of(**section), turned, SIDES).run(source)
    assert again.metrics == pytest.approx(found.metrics)


def test_a_pool_of_more_pairs_than_there_are_holds_all():
    split = make_split(records=9)
    section = {"type": "pools", "repeats": 2, "directions": ["t2i", "i2t"]}
    (found,) = make_evaluator("x", options_of(**section), split, SIDES).run(make_source(split))
    assert found.metrics["t2i/median_rank_std"] == found.metrics["i2t/recall@1_std"] == 0


def test_pools_of_two_models_are_compared_pool_by_pool(tmp_path):
    split = make_split(records=41)
    section = {"type": "pools", "size": 16, "repeats": 6}
    evaluator = make_evaluator("x", options_of(**section), split, SIDES)
    sources = [make_source(split, seed) for seed in (1, 2)]
    ours, theirs = (
        judge(evaluator, source, name=name, evaluator_name="x")
        for source, name in zip(sources, ("A", "B"), strict=True)
    )
    theirs.save(tmp_path / "B")
    stored = load_ranks(tmp_path / "B")
    evaluator.check_comparable(stored)
    found = ours.compare(stored)
    medians = []
    for source in sources:
        of_pools = [
            pool_ranks(source, split, split.image_ids[images], split.caption_ids[texts])
            for images, texts in evaluator._pools
        ]
        medians.append([np.median(ranks) for ranks in of_pools])
    test = scipy.stats.ttest_rel(*medians)
    interval = test.confidence_interval()
    each = found["t2i/median_rank"]
    assert each.difference == pytest.approx(np.mean(medians[0]) - np.mean(medians[1]))
    assert (each.low, each.high) == pytest.approx((interval.low, interval.high))
    assert each.separable == (test.pvalue < 0.05)
    assert set(found) == {f"t2i/{m}" for m in ("median_rank", "recall@1", "recall@5", "recall@10")}
    ours.save(tmp_path / "A", comparison=found, other="B")
    text = (tmp_path / "A/comparison.md").read_text()
    assert f"| {each.value:.2f} | {each.other:.2f} | {each.difference:+.2f} |" in squeeze(text)
    assert "Pools share pairs" in text
    # Other pools, or a file without single pools, are refused before any work.
    other = make_evaluator("x", options_of(**section, seed=3), split, SIDES)
    with pytest.raises(UserError, match="The items pools differ"):
        other.check_comparable(stored)
    with pytest.raises(UserError, match="of B have no values of single pools; evaluate that model"):
        evaluator.check_comparable(dataclasses.replace(stored, numbers=()))


def squeeze(text):
    return " ".join(text.split())


def test_captions_with_a_relation_ask_nothing():
    relations = np.random.default_rng(5).integers(0, 2, (41, 3))
    names = {"relations": ["a", "b", "c"]}
    split = make_split(records=41, labels={"relations": relations}, label_names=names)
    source = make_source(split)
    section = {"type": "pools", "size": 30, "repeats": 3}
    everyone = make_evaluator("x", options_of(**section), split, SIDES)
    some = make_evaluator("x", options_of(**section, without=["a", "c"]), split, SIDES)
    (found,) = some.run(source)
    medians = []
    for images, texts in everyone._pools:
        asking = [not relations[image][[0, 2]].any() for image in images]
        assert 0 < sum(asking) < 15
        ranks = pool_ranks(
            source, split, split.image_ids[images], split.caption_ids[texts[np.array(asking)]]
        )
        medians.append(np.median(ranks))
    assert found.metrics["t2i/median_rank"] == pytest.approx(np.mean(medians))
    (of_all,) = everyone.run(source)
    assert of_all.label_hash != found.label_hash
    with pytest.raises(UserError, match=r"'d' in config.evals.x.without; known: \['a', 'b', 'c'\]"):
        make_evaluator("x", options_of(**section, without=["d"]), split, SIDES)
    with pytest.raises(UserError, match="leaves a pool without queries"):
        make_evaluator("x", options_of(**section | {"size": 1}, without=list("abc")), split, SIDES)


def test_pools_are_reranked_by_whole_rows():
    split = make_split(records=30)
    source = make_source(split)
    generator = np.random.default_rng(9)
    parts = [generator.normal(size=(30, 2)).astype(np.float32) for _ in range(2)]
    reranker = {"name": "selective_refinement", "strength": 5.0, "gap": 2.0}
    section = {"type": "pools", "size": 12, "repeats": 3, "reranker": reranker, "task": "topics"}
    evaluator = make_evaluator("x", options_of(**section), split, SIDES)
    with pytest.raises(UserError, match="no predictions of task 'topics' to rerank by"):
        evaluator.run(source)
    source = dataclasses.replace(source, predictions={"topics": Predictions(*parts)})
    (found,) = evaluator.run(source)
    medians = []
    for images, texts in evaluator._pools:
        ranks = []
        for own, text in zip(images, texts, strict=True):
            caption = list(source.caption_ids).index(split.caption_ids[text])
            row = {}
            for image in images:
                at = list(source.image_ids).index(split.image_ids[image])
                p = 1 / (1 + np.exp(-(parts[0][at] + parts[1][caption])))
                score = cosine(source.images[at], source.captions[caption])
                row[image] = score * np.exp(5.0 * abs(p - 0.5)).sum()
            ranks.append(1 + sum(x > row[own] for x in row.values()))
        medians.append(np.median(ranks))
    assert found.metrics["t2i/median_rank"] == pytest.approx(np.mean(medians))


def slow_average_precision(scores, positive):
    order = sorted(range(len(scores)), key=lambda i: (-scores[i], i))
    hits, total = 0, 0.0
    for place, i in enumerate(order, 1):
        if positive[i]:
            hits += 1
            total += hits / place
    return total / hits


def test_relations_of_true_pairs():
    generator = np.random.default_rng(4)
    relations = (generator.random((40, 3)) < 0.3).astype(np.int32)
    split = make_split(labels={"relations": relations}, label_names={"relations": ["a", "b", "c"]})
    parts = [generator.normal(size=(40, 3)).astype(np.float32) for _ in range(2)]
    source = make_source(split, predictions={"topics": Predictions(*parts)})
    section = {"type": "relations", "task": "topics"}
    (found,) = make_evaluator("x", options_of(**section), split, SIDES).run(source)
    images = [list(source.image_ids).index(i) for i in split.image_ids]
    captions = [list(source.caption_ids).index(i) for i in split.caption_ids]
    logits = parts[0][images] + parts[1][captions]
    each = [slow_average_precision(logits[:, c], relations[:, c]) for c in range(3)]
    expected = {f"{name}/average_precision": 100 * x for name, x in zip("abc", each, strict=True)}
    expected["mean/average_precision"] = 100 * np.mean(each)
    rates = [100 * sum(relations[:, c]) / 40 for c in range(3)]
    expected |= {f"{name}/base_rate": x for name, x in zip("abc", rates, strict=True)}
    expected["mean/base_rate"] = np.mean(rates)
    assert found.metrics == pytest.approx(expected)
    named = options_of(**section, names=["x", "y", "z"])
    (found,) = make_evaluator("x", named, split, SIDES).run(source)
    assert "z/average_precision" in found.metrics


def test_relations_of_captions_alone(tmp_path):
    generator = np.random.default_rng(4)
    relations = (generator.random((40, 2)) < 0.3).astype(np.int32)
    split = make_split(labels={"relations": relations})
    logits = generator.normal(size=(40, 2)).astype(np.float32)
    source = make_source(split, predictions={"topics": Predictions(None, logits)})
    source = dataclasses.replace(source, image_ids=None, images=None)
    evaluator = make_evaluator(
        "x", options_of(type="relations", task="topics"), split, source.sides
    )
    (found,) = evaluator.run(source)
    at = [list(source.caption_ids).index(i) for i in split.caption_ids]
    for c in range(2):
        expected = 100 * slow_average_precision(logits[at, c], relations[:, c])
        assert found.metrics[f"{c}/average_precision"] == pytest.approx(expected)
    # Saved and read, and of a model whose task reads no images although it has them.
    save_embeddings(tmp_path / "model.npz", source)
    read = load_embeddings(tmp_path / "model.npz")
    assert read.predictions["topics"].images is None
    (again,) = evaluator.run(read)
    assert again.metrics == pytest.approx(found.metrics)
    both = make_source(split, predictions=source.predictions)
    (again,) = make_evaluator("x", evaluator.options, split, SIDES).run(both)
    assert again.metrics == found.metrics


def make_matches(split, seed=8):
    """Every image with its own caption and with as many more as its number modulo 5."""
    generator = np.random.default_rng(seed)
    counts = np.arange(len(split.image_ids)) % 5
    pairs = set(zip(split.caption_image_ids.tolist(), split.caption_ids.tolist(), strict=True))
    for image, count in zip(split.image_ids.tolist(), counts, strict=True):
        pairs |= {(image, int(c)) for c in generator.choice(split.caption_ids, count)}
    images, captions = np.array(sorted(pairs)).T
    return {"matches": {"i2t": (images, captions), "t2i": (captions, images)}}


@pytest.mark.parametrize("probabilistic", [True, False])
def test_ambiguity_is_the_rank_correlation_with_the_number_of_positives(probabilistic):
    split = make_split(records=30, captions=2)
    split = dataclasses.replace(split, lists=make_matches(split))
    source, generator = make_source(split), np.random.default_rng(2)
    pairs = split.lists["matches"]["i2t"]
    of_image = {i: np.sum(pairs[0] == i) for i in split.image_ids}
    of_caption = {c: np.sum(pairs[1] == c) for c in split.caption_ids}
    # Two embeddings as far apart as the number of positives and noise say.
    spreads = {
        "images": np.array([of_image[i] for i in source.image_ids]) + generator.normal(size=30),
        "captions": np.array([of_caption[c] for c in source.caption_ids]) * -1.0,
    }
    both = {
        name: getattr(source, name)[:, None] + np.exp(0.1 * spread)[:, None, None] * [[[1], [-1]]]
        for name, spread in spreads.items()
    }
    source = dataclasses.replace(source, **both)
    if probabilistic:
        drawn = generator.normal(size=(90, 6))
        sigma = {"image": drawn[:30], "text": drawn[30:] + spreads["captions"][:, None]}
        source = dataclasses.replace(source, log_sigma=sigma)
    section = {"type": "ambiguity", "board": "shapes_matches", "bootstrap_samples": 4000}
    evaluator = make_evaluator("x", options_of(**section), split, SIDES)
    evaluation = judge(evaluator, source, name="ours")
    counts = [of_image[i] for i in source.image_ids], [of_caption[c] for c in source.caption_ids]
    for tag, side, name, known in zip(("i2t", "t2i"), SIDES, both, counts, strict=True):
        if probabilistic:
            uncertainty = [np.mean(row) for row in source.log_sigma[side]]
        else:
            uncertainty = [np.linalg.norm(a - b) for a, b in both[name]]
        expected = 100 * scipy.stats.spearmanr(uncertainty, known).statistic
        found = evaluation.metrics[f"ambiguity/{tag}/spearman"]
        # The mean of correlations of halves of the queries.
        assert found == pytest.approx(expected, abs=3)
        low, high = (
            evaluation.metrics[f"ambiguity/{tag}/spearman_{end}"] for end in ("low", "high")
        )
        assert low < found < high
        assert evaluation.metrics[f"ambiguity/{tag}/pairs"] == len(known)
    found = summarize(evaluator.run(source), intervals=False)
    assert sorted(evaluator.tags(SIDES)) == sorted(found)


def test_a_model_of_one_embedding_predicts_no_uncertainty():
    split = make_split(records=30, captions=2)
    split = dataclasses.replace(split, lists=make_matches(split))
    section = {"type": "ambiguity", "board": "shapes_matches"}
    evaluator = make_evaluator("x", options_of(**section), split, SIDES)
    with pytest.raises(UserError, match="here has one embedding of every item and no log sigma"):
        evaluator.run(make_source(split))


def test_tags_begin_with_the_evaluator_once():
    assert evaluator_tag("coco", "coco5k/i2t/recall@1") == "coco/coco5k/i2t/recall@1"
    assert evaluator_tag("cxc", "cxc/i2t/recall@1") == "cxc/i2t/recall@1"
    assert evaluator_tag("sts", "avg2016/pearson") == "sts/avg2016/pearson"


@pytest.mark.parametrize(
    ("section", "sides", "message"),
    [
        ({"type": "pairs"}, ["image"], "has no text side"),
        ({"type": "pairs"}, SIDES, "the label column 'score', which .* lacks; known: .'relations'"),
        ({"type": "pools"}, ["text"], r"the model has \['text'\]"),
        ({"type": "relations", "task": "t"}, ["image"], "has no text side"),
        ({"type": "relations"}, SIDES, r"config.evals.x.task is empty"),
        ({"type": "relations", "task": "t", "labels": "topics"}, SIDES, "column 'topics'"),
        ({"type": "relations", "task": "t", "names": ["a"]}, SIDES, "has 1 names for the 2 rel"),
        ({"type": "boards", "boards": ["coco5k"]}, SIDES, r"Unknown board\(s\) \['coco5k'\]"),
        ({"type": "boards"}, ["image"], "a tower for image alone, which no board"),
    ],
)
def test_a_split_or_model_that_lacks_something(section, sides, message):
    split = make_split(labels={"relations": np.zeros((40, 2), int)})
    with pytest.raises(UserError, match=message):
        make_evaluator("x", options_of(**section), split, sides)


@pytest.mark.parametrize(
    ("section", "message"),
    [
        ({"type": "board"}, r"'board' in config.evals.x.type; known: .*Did you mean 'boards'"),
        ({}, "config.evals.x is {}; it has to be a section with a type of .*'boards'"),
        ({"type": "pools", "sise": 5}, r"\['sise'\] in config.evals.x; .*Did you mean 'size'"),
        ({"type": "pools", "repeats": 0}, "config.evals.x.repeats is 0; it has to be at least 1"),
        ({"type": "boards", "every": -1}, "config.evals.x.every is -1"),
        ({"type": "pools", "directions": ["t2t"]}, "'t2t' in config.evals.x.directions"),
    ],
)
def test_options_that_are_wrong(section, message):
    with pytest.raises(UserError, match=message):
        options_of(**section)


def test_a_name_with_a_slash():
    with pytest.raises(UserError, match="config.evals.a/b has a slash"):
        read_options({"a/b": {"type": "boards"}})
