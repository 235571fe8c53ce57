"""Zero-shot classification, nearest neighbors and linear probes against slow references."""

import dataclasses

import numpy as np
import pytest
import scipy.stats

from tests.evals.evaluators.labeled_split import NAMES, Clusters, evaluate, make_split
from tests.evals.evaluators.random_vectors import SIDES, options_of
from xmodal.core.errors import UserError
from xmodal.evals import Embeddings, evaluate_source, make_evaluator
from xmodal.evals.evaluators.classification import compute_accuracies
from xmodal.evals.evaluators.knn import vote
from xmodal.evals.evaluators.linear_probe import fit
from xmodal.evals.reports.store import load_ranks
from xmodal.evals.reports.summary import summarize
from xmodal.evals.reports.uncertainty import Resamples, compute_interval


@pytest.fixture
def split():
    return make_split(37, 0, train=make_split(41, 1, split="train"))


def in_order(provider, split):
    found = provider.items(split)
    row = {int(each): i for i, each in enumerate(found.image_ids)}
    return np.array([found.images[row[int(each)]] for each in split.image_ids], np.float64)


def unit(x):
    return x / np.linalg.norm(x, axis=-1, keepdims=True)


def accuracies(scores, labels):
    """By one image after the other; `accuracy@5` of three classes would be 100."""
    hits, by_class = {1: [], 5: []}, {}
    for row, label in zip(scores, labels, strict=True):
        # The places of the own class, if equal scores may come in any order.
        first, equal = sum(row > row[label]), sum(row == row[label])
        places = range(first, first + equal) if np.isfinite(row[label]) else [len(row)]
        for depth, found in hits.items():
            found.append(np.mean([place < depth for place in places]))
        by_class.setdefault(label, []).append(hits[1][-1])
    depths = (1,) if len(scores[0]) <= 5 else (1, 5)
    return {
        **{f"accuracy@{depth}": 100 * np.mean(hits[depth]) for depth in depths},
        "mean_class_accuracy": 100 * np.mean([np.mean(each) for each in by_class.values()]),
    }


def test_zero_shot_by_hand(split):
    provider, templates = Clusters(), ("a {}", "there is a {} here", "name")
    found = evaluate(split, provider, type="zero_shot", templates=templates)
    classes = []
    for name in NAMES:
        prompts = [f"a {name}", f"there is a {name} here", name]
        classes.append(unit(np.mean([unit(provider.embed("text", [p])[0]) for p in prompts], 0)))
    scores = unit(in_order(provider, split)) @ np.array(classes).T
    expected = accuracies(scores, split.labels["label"])
    assert {tag: found.metrics[tag] for tag in expected} == pytest.approx(expected)
    assert 40 < expected["accuracy@1"] < 100
    assert found.metrics["queries"] == 37
    assert found.metrics["gallery"] == 3
    assert "9" not in found.definition.split("prompts")[0][-3:]
    assert "3 prompts per class, the first is 'a {}'" in found.definition


def test_prompts_and_classes_may_be_in_files(split, tmp_path):
    prompts, names = tmp_path / "prompts.txt", tmp_path / "names.txt"
    # Some editors begin a file with a mark.
    prompts.write_text("\ufeffa {}\n\n  there is a {} here\nname\n")
    names.write_text("\ufeffold_dog\ncat\nbird\n")
    listed, stored = (
        evaluate(split, Clusters(), type="zero_shot", templates=templates, names=classes).metrics
        for templates, classes in (
            (("a {}", "there is a {} here", "name"), ("old_dog", "cat", "bird")),
            ((str(prompts),), (str(names),)),
        )
    )
    assert stored == listed
    with pytest.raises(UserError, match=r"templates: the file '.*none.txt' cannot be read"):
        evaluate(split, Clusters(), type="zero_shot", templates=(str(tmp_path / "none.txt"),))


def test_prompts_have_spaces_for_the_underscores_of_names(split):
    provider, names = Clusters(), [f"big_old_{name}" for name in NAMES]
    of_names = {"type": "zero_shot", "names": tuple(names)}
    found = evaluate(split, provider, **of_names, templates=("a_{}",))
    assert "cosine of the image and the prompt of a class, 'a_{}'. " in found.definition
    assert sorted(provider.asked) == sorted(f"a_big old {name}" for name in NAMES)


class Constant(Clusters):
    """All images, all texts, or both have one vector."""

    def __init__(self, value, sides=SIDES, classes=3):
        super().__init__(classes=classes)
        self._value, self._sides = value, sides

    def items(self, split, **options):
        found = super().items(split, **options)
        images = np.full_like(found.images, self._value)
        return dataclasses.replace(found, images=images) if "image" in self._sides else found

    def embed(self, side, given, **options):
        found = super().embed(side, given, **options)
        return np.full_like(found, self._value) if "text" in self._sides else found


@pytest.mark.parametrize("value", [0, 0.3])
@pytest.mark.parametrize(
    ("kind", "sides"),
    [(kind, SIDES) for kind in ("zero_shot", "knn", "linear_probe")]
    + [("zero_shot", side) for side in SIDES],
)
def test_a_constant_model_is_at_chance(split, kind, sides, value):
    split.train.labels = {"label": np.arange(41) % 3}
    evaluator = make_evaluator("x", options_of(type=kind), split, SIDES)
    found = evaluate_source(evaluator, Constant(value, sides), name="constant")
    assert found.metrics["mean_class_accuracy"] == pytest.approx(100 / 3)
    if kind == "zero_shot" and (value == 0 or "text" in sides):
        assert found.metrics["accuracy@1"] == pytest.approx(100 / 3)
        assert found.metrics["tied_queries"] == 37
        assert (
            "**MOST QUERIES ARE TIED: 37 of 37; the order of the items decides.**" in found.report()
        )


def test_five_of_ten_equal_classes_are_among_the_first_five():
    split, names = make_split(40, 0), tuple(f"{n} dog" for n in range(10))
    split.labels = {"label": np.arange(40) % 10}
    found = evaluate(split, Constant(1, classes=10), type="zero_shot", names=names).metrics
    assert (found["accuracy@1"], found["accuracy@5"]) == pytest.approx((10, 50))


@pytest.mark.parametrize("names", [("dog", "dog"), ("old dog", "old_dog")])
def test_two_classes_with_one_prompt_share_their_hits(split, names):
    split.label_names, provider = {"label": [*names, "bird"]}, Clusters(noise=0.01)
    provider._centers[1] = provider._centers[0]
    options = options_of(type="zero_shot", templates=("a {}", "the {}"))
    found = evaluate_source(make_evaluator("x", options, split, SIDES), provider, name="m")
    labels = split.labels["label"]
    assert found.metrics["accuracy@1"] == pytest.approx(100 * np.mean(np.where(labels < 2, 0.5, 1)))
    assert found.metrics["tied_queries"] == np.sum(labels < 2)
    assert f"CLASSES WITH THE SAME NAME: {names[0]!r}, {names[1]!r}." in found.report()


@pytest.mark.parametrize("k", [1, 7, 200])
def test_neighbors_by_hand(split, k):
    provider, temperature = Clusters(noise=1.5), 0.3
    found = evaluate(split, provider, type="knn", k=k, temperature=temperature)
    images, train = (unit(in_order(provider, each)) for each in (split, split.train))
    labels, rows = split.train.labels["label"], []
    for image in images:
        cosines = train @ image
        votes = np.zeros(len(NAMES))
        for place in np.argsort(-cosines, kind="stable")[:k]:
            votes[labels[place]] += np.exp(cosines[place] / temperature)
        rows.append([vote if vote else -np.inf for vote in votes])
    expected = accuracies(np.array(rows), split.labels["label"])
    assert {tag: found.metrics[tag] for tag in expected} == pytest.approx(expected)


def test_of_equally_near_neighbors_those_with_the_lowest_ids_vote(split):
    ids, labels = np.array([7, 3, 5, 1]), np.array([2, 1, 0, 1])
    for order in ([0, 1, 2, 3], [2, 0, 3, 1]):
        split.train.image_ids, split.train.labels = ids[order], {"label": labels[order]}
        for k in (1, 2, 3):
            found = evaluate(split, Constant(1), type="knn", k=k).metrics
            share = 100 * np.mean(split.labels["label"] == 1)
            assert found["accuracy@1"] == pytest.approx(share)


def test_classes_without_training_images_and_copies_are_named(split):
    split.image_hashes, split.train.image_hashes = np.arange(37), np.arange(30, 71)
    split.labels = {"label": np.arange(37) % 3}
    # No class 1, so two of seven copies are of another class.
    split.train.labels = {"label": np.arange(30, 71) % 3 // 2 * 2}
    for kind in ("knn", "linear_probe"):
        evaluator = make_evaluator("x", options_of(type=kind), split, SIDES)
        report = evaluate_source(evaluator, Clusters(), name="m").report()
        assert "CLASSES WITHOUT TRAINING IMAGES: animals train has none of 'cat'." in report
        assert "COPIES: 7 of 37 evaluated images are also in animals train; 2 images" in report


def test_classes_without_a_vote_have_no_rank():
    queries, train = np.eye(2, dtype=np.float32), np.eye(2, dtype=np.float32)
    found = vote(queries, train, np.array([2, 0]), classes=4, k=1, temperature=0.01)
    assert np.isfinite(found).tolist() == [[False, False, True, False], [True, False, False, False]]
    # exp(1 / 0.01) exceeds float32.
    np.testing.assert_allclose(found[[0, 1], [2, 0]], 100)


def test_a_probe_is_at_the_minimum_of_its_objective():
    generator, weight = np.random.default_rng(0), 0.03
    features = unit(generator.normal(size=(53, 7))).astype(np.float32)
    labels = generator.integers(0, 4, 53)
    matrix, bias = fit(features, labels, weight, classes=4, steps=500)

    def objective(flat):
        w, b = np.split(flat, [28])
        logits = features.astype(np.float64) @ w.reshape(7, 4) + b
        own = logits[np.arange(53), labels]
        entropy = np.mean(np.log(np.exp(logits).sum(axis=1)) - own)
        return entropy + weight / 2 * np.sum(w * w)

    flat = np.concatenate([matrix.ravel(), bias]).astype(np.float64)
    best = objective(flat)
    for _ in range(20):
        step = generator.normal(size=flat.shape)
        for size in (1e-1, 1e-2):
            assert objective(flat + size * step) > best
    slope = [(objective(flat + e) - objective(flat - e)) / 2e-5 for e in 1e-5 * np.eye(32)]
    assert np.abs(slope).max() < 1e-4


def test_a_linear_probe_chooses_its_regularization(split):
    provider = Clusters(noise=0.3)
    found = evaluate(split, provider, type="linear_probe").metrics
    assert found["accuracy@1"] > 90
    # With too strong a regularization, all images get the most frequent class.
    worst = evaluate(split, provider, type="linear_probe", regularization=(1e4,)).metrics
    assert worst["regularization"] == 1e4
    assert worst["accuracy@1"] < found["accuracy@1"]
    both = evaluate(split, provider, type="linear_probe", regularization=(1e4, 1e-3)).metrics
    assert both["regularization"] == 1e-3


def test_chance_is_that_of_ranks_drawn_at_random():
    split, provider = make_split(900, 3), Clusters()
    found = evaluate(split, provider, type="zero_shot", bootstrap_samples=2)
    rank = np.random.default_rng(0).integers(0, len(NAMES), 900)
    guessed = compute_accuracies(
        rank[:, None] < 1, split.labels["label"], depths=[1], samples=2, seed=0
    )
    values = {tag: value for tag, value in guessed.items() if not tag.endswith(("_low", "_high"))}
    assert found.chance == pytest.approx(values, abs=5)
    assert "accuracy@5" not in found.chance  # It would be 100 of three classes.


def test_intervals_are_those_of_a_plain_bootstrap():
    generator = np.random.default_rng(2)
    classes, rank = generator.integers(0, 6, 23) * 3, generator.integers(0, 8, 23)
    hits = (rank[:, None] < [1, 5]).astype(float)
    found = compute_accuracies(hits, classes, depths=[1, 5], samples=50, seed=4)
    counts = Resamples(23, samples=50, seed=4).counts
    samples = {}
    for column in counts.T:
        rows = np.repeat(np.arange(23), column)
        scores = np.zeros((len(rows), 20))
        for line, row in zip(scores, rows, strict=True):
            line[[c for c in range(20) if c != classes[row]][: rank[row]]] = 1
            line[classes[row]] = 0.5
        for tag, value in accuracies(scores, classes[rows]).items():
            samples.setdefault(tag, []).append(value)
    for tag, values in samples.items():
        limits = found[f"{tag}_low"], found[f"{tag}_high"]
        assert limits == pytest.approx(compute_interval(np.array(values)))


@pytest.mark.parametrize("kind", ["zero_shot", "knn", "linear_probe"])
def test_tags_and_report(split, kind):
    evaluator = make_evaluator("x", options_of(type=kind), split, SIDES)
    evaluation = evaluate_source(evaluator, Clusters(), name="clusters", evaluator_name="animals")
    assert sorted(evaluator.tags(SIDES)) == sorted(summarize(evaluation.results, intervals=False))
    assert "animals/accuracy@1_low" in evaluation.tagged
    ranked_by = "logits" if kind == "linear_probe" else "cosine"
    assert f"Similarity: {ranked_by}." in evaluation.report()


@pytest.mark.parametrize("kind", ["zero_shot", "knn"])
def test_two_models_are_compared_on_the_same_images(split, kind, tmp_path):
    near, far = (
        evaluate_source(
            make_evaluator("x", options_of(type=kind), split, SIDES), Clusters(noise), name=name
        )
        for noise, name in ((0.3, "near"), (2.0, "far"))
    )
    far.save(tmp_path)
    found = near.compare(tmp_path)
    for tag in ("accuracy@1", "mean_class_accuracy"):
        assert found[tag].value == pytest.approx(near.metrics[tag])
        assert found[tag].difference == pytest.approx(near.metrics[tag] - far.metrics[tag])
    assert found["accuracy@1"].separable
    hits = [np.array(each.results[0].repeats["accuracy@1"]) for each in (near, far)]
    interval = scipy.stats.ttest_rel(*hits).confidence_interval(0.95)
    assert (found["accuracy@1"].low, found["accuracy@1"].high) == pytest.approx(tuple(interval))
    assert "a paired t-test over the images." in str(found)
    assert "pools" not in str(found)
    old = dataclasses.replace(load_ranks(tmp_path), numbers=[])
    with pytest.raises(UserError, match="the other evaluation has none; evaluate the model again"):
        near.compare(old)


def test_classes_of_the_training_split_alone_count(split):
    split.train.labels = {"label": np.append(split.train.labels["label"][1:], 4)}
    split.label_names = {}
    found = evaluate(split, Clusters(classes=5), type="knn", k=1)
    assert found.metrics["gallery"] == 5
    assert "37 images among 5" in found.definition
    assert "accuracy@5" not in found.metrics
    split.train.labels["label"][-1] = 5
    found = evaluate(split, Clusters(classes=6), type="knn", k=1)
    assert found.metrics["accuracy@5"] >= found.metrics["accuracy@1"]
    with pytest.raises(UserError, match="has names for 3 classes, .* has images of class 5"):
        make_evaluator("x", options_of(type="knn", names=NAMES), split, SIDES)


@pytest.mark.parametrize(
    ("train_split", "evaluated", "shared"),
    [
        ("train+validation", "validation", "validation"),
        ("train", "train[:10%]+test", r"train\[:10%\]"),
        ("train[10%:]", "train[10%:]", r"train\[10%:\]"),
        ("train[10%:]", "train[:10%]", ""),
    ],
)
def test_evaluated_images_are_not_learned_from(split, monkeypatch, train_split, evaluated, shared):
    """A neighbor at distance 0 votes for the right class."""
    split.split, options = evaluated, options_of(type="knn", train_split=train_split)
    monkeypatch.setattr(split, "beside", lambda name: split.train)
    if shared:
        with pytest.raises(UserError, match=f"of which it evaluates '{shared}'; name another"):
            make_evaluator("x", options, split, SIDES)
    else:
        make_evaluator("x", options, split, SIDES)


@pytest.mark.parametrize(
    ("section", "sides", "message"),
    [
        ({"type": "zero_shot"}, ["image"], "with text embeddings; this one has only image"),
        ({"type": "knn"}, ["text"], "with image embeddings; this one has only text"),
        ({"type": "zero_shot", "labels": "breed"}, SIDES, "needs the label column 'breed'"),
        ({"type": "zero_shot", "names": ("dog",)}, SIDES, "names for 1 classes, .* of class 2"),
        ({"type": "knn", "train_split": "test"}, SIDES, "from the split 'test', of which it eval"),
        ({"type": "zero_shot", "templates": ("foto",)}, SIDES, "Unknown name 'foto'.*contains {}"),
        ({"type": "zero_shot", "templates": ()}, SIDES, "templates is empty"),
        ({"type": "knn", "k": 0}, SIDES, "k is 0"),
        ({"type": "linear_probe", "regularization": ()}, SIDES, "regularization is empty"),
    ],
)
def test_mistakes_are_named(split, section, sides, message):
    with pytest.raises(UserError, match=message):
        make_evaluator("x", options_of(**section), split, sides)


def test_labels_and_vectors_that_cannot_be_used(split):
    split.labels = {"label": split.labels["label"] - 1}
    with pytest.raises(UserError, match="has images of class -1, which are not labeled"):
        evaluate(split, Clusters(), type="zero_shot")
    split.labels = {"label": split.labels["label"] + 1.0}
    with pytest.raises(UserError, match="is float64 .* one integer per image"):
        evaluate(split, Clusters(), type="zero_shot")
    split = make_split(9, 0)
    split.label_names = {}
    with pytest.raises(UserError, match="has no names of the classes in 'label'; list them in"):
        evaluate(split, Clusters(), type="zero_shot")
    ids = np.append(split.image_ids, np.arange(2000, 2005))
    several = Embeddings("m", ids, np.ones((14, 2, 3), np.float32), None, None, "dot")
    split.train = make_split(5, 3, split="train")
    with pytest.raises(UserError, match="m lacks images of animals train, .* in one file"):
        evaluate(split, dataclasses.replace(several, images=several.images[:, 0]), type="knn", k=1)
    split.train.image_ids = ids[9:]
    with pytest.raises(UserError, match="classifies by one vector per item, and m has 2"):
        evaluate(split, several, type="knn", k=1)
