r"""Predicts relations only from the words of captions: TF-IDF and logistic regression.

    python -m xmodal caption_relations --config=configs/cmcm_clue.py:captions \
        --config.data.manual_dir=DIR --output=OUT

The baseline for a config whose evaluators of type `relations` evaluate a model of captions: it
learns from `config.train_split`, and the same evaluators evaluate it on their final splits. It uses
one regression per relation, on lower-case unigrams and bigrams, with rare labels weighted up.
scikit-learn is an extra: `pip install "xmodal[baselines]"`.
"""

import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from absl import flags

from xmodal.apps import config_flag, output_flag
from xmodal.apps.arguments import require_extra
from xmodal.apps.output_flag import OUTPUT

if TYPE_CHECKING:
    from xmodal.evals import Evaluation
    from xmodal.evals.evaluators.evaluator import Split

flags.adopt_module_key_flags(config_flag)
flags.adopt_module_key_flags(output_flag)

_NAME = "TF-IDF, logistic regression"


def predict_relations(train: Sequence[str], labels: np.ndarray, test: Sequence[str]) -> np.ndarray:
    """Predicts relations by one logistic regression per relation on the words of captions.

    Args:
      train: N captions.
      labels: their labels, 0 or 1 [N, R].
      test: M captions.

    Returns:
      The logits of the test captions, float32 [M, R]; constant for relations of all or none.
    """
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.linear_model import LogisticRegression
    from sklearn.multiclass import OneVsRestClassifier

    words = TfidfVectorizer(ngram_range=(1, 2), sublinear_tf=True)
    one = LogisticRegression(class_weight="balanced", max_iter=1000)
    with warnings.catch_warnings(action="ignore"):  # scikit-learn's, of constant labels.
        model = OneVsRestClassifier(one).fit(words.fit_transform(train), labels)
    return model.decision_function(words.transform(test)).reshape(len(test), -1).astype(np.float32)


def judge_baseline(config: dict[str, Any]) -> dict[str, "Evaluation"]:
    """Returns the evaluation by every relations evaluator of a config, by evaluator name."""
    from xmodal import data
    from xmodal.evals import evaluate_source, make_evaluator, read_options
    from xmodal.evals.evaluators.relations import RelationsOptions
    from xmodal.evals.scores.sources import Embeddings, Predictions

    evaluations = {}
    for name, options in read_options(config["evals"]).items():
        if not isinstance(options, RelationsOptions):
            continue
        read = {"labels": options.labels_read, "image": None}
        section = data.with_changes(config["data"], options.data or {}) | read
        split = data.eval_split(section, split=options.final_split)
        evaluator = make_evaluator(name, options, cast("Split", split), ["text"])
        train = data.eval_split(config["data"] | read, split=config["train_split"])
        labels = train.labels[options.labels][train.caption_rows] > 0
        labels = labels[:, list(options.select) or slice(None)].astype(int)
        predicted = predict_relations(train.caption_texts, labels, split.caption_texts)
        source = Embeddings(
            _NAME,
            image_ids=None,
            images=None,
            caption_ids=split.caption_ids,
            captions=np.zeros((len(split.caption_ids), 1), np.float32),
            similarity="cosine",
            predictions={options.task: Predictions(None, predicted)},
        )
        evaluations[name] = evaluate_source(evaluator, source, name=_NAME, evaluator_name=name)
    return evaluations


def main(argv: list[str]) -> None:
    """Fits the baseline, and prints and writes the reports."""
    del argv
    config = config_flag.read_config()
    require_extra("baselines", "sklearn")
    from xmodal.core.files import check_writable

    check_writable(OUTPUT.value)
    for name, each in judge_baseline(config.to_dict()).items():
        print(f"{each.report()}\n", flush=True)
        each.save(f"{OUTPUT.value}/{name}")


if __name__ == "__main__":
    flags.mark_flags_as_required(["config", "output"])
    config_flag.run(main)
