r"""Learns word vectors from training captions with gensim's Word2Vec, VETE's text-only baseline.

    python -m xmodal word2vec --config=configs/vete.py --output=word2vec.txt
    python -m xmodal convert --tower=words --source=word2vec.txt --output=weights/word2vec
    python -m xmodal.eval_main --config=configs/sts.py:bow \
        --config.init_from.towers.text=weights/word2vec --config.data.manual_dir=STS --output=OUT
    python -m xmodal word2vec --config=configs/vete.py --trials=100 --output=sweeps/word2vec \
        --config.data.manual_dir=DIR --config.evals.sts.data.manual_dir=STS

The captions are those of `config.data` and `config.train_split`, lowercased and split into words in
the same way as for tables of word vectors (`xmodal.data.text.words`), or, with --as_tokenized,
as the config splits them. A single worker runs, so that the same seed gives the same vectors.
With --trials, settings are drawn at random, as in `xmodal sweep` (VETE's algorithm 1): --window,
--min_count, --epochs and --skip_gram, unless the command line sets them. Every trial is evaluated
on the sentence pairs of `config.evals` and compared by `config.best_checkpoint.metric`. --output is
then a folder: `report.md`, `results.csv`, `metrics.json` of the best trial, and its vectors in
`trials/NUMBER/checkpoints/words.txt`. The same command resumes a search.
--epochs=0 leaves the random vectors: their means compare captions nearly by their counts of words.
Mikolov et al. 2013; gensim is an extra: `pip install "xmodal[word2vec]"`.
"""

import dataclasses
import functools
import os
import pathlib
import shutil
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from absl import flags, logging
from ml_collections import ConfigDict

from xmodal.apps import config_flag, output_flag, trials_flag
from xmodal.apps.arguments import require_extra
from xmodal.apps.output_flag import OUTPUT
from xmodal.apps.trials_flag import TRIALS

if TYPE_CHECKING:
    from xmodal.data.text.text_config import TextConfig

flags.adopt_module_key_flags(config_flag)
flags.adopt_module_key_flags(output_flag)
flags.adopt_module_key_flags(trials_flag)
WIDTH = flags.DEFINE_integer("width", 128, "Width of the vectors.", lower_bound=1)
WINDOW = flags.DEFINE_integer("window", 5, "Context words on either side.", lower_bound=1)
MIN_COUNT = flags.DEFINE_integer("min_count", 4, "Rarer words have no vector.", lower_bound=1)
EPOCHS = flags.DEFINE_integer("epochs", 20, "Passes; with 0, random vectors.", lower_bound=0)
SKIP_GRAM = flags.DEFINE_bool("skip_gram", True, "Skip-gram; else a continuous bag of words.")
DRAWN = {
    "window": ("int", 2, 10),
    "min_count": ("choice", 1, 2, 4, 8),
    "epochs": ("choice", 5, 10, 20, 40),
    "skip_gram": ("choice", True, False),
}
AS_TOKENIZED = flags.DEFINE_bool(
    "as_tokenized", False, "Split captions into words as config.data.text does."
)


def split_captions(captions: Iterable[str], text: "TextConfig | None") -> list[list[str]]:
    """Returns the words of captions as a tokenizer reads them, or, for None, in lower case."""
    from xmodal.data.text.tokenizers import word_splitter
    from xmodal.data.text.words import cut_text, split_words

    if text is None:
        return [split_words(caption.lower()) for caption in captions]
    split = word_splitter(text)
    cut = functools.partial(cut_text, separators=text.separators, max_words=text.max_words)
    return [split(cut(caption)) for caption in captions]


def learn_vectors(sentences: Sequence[Sequence[str]], *, skip_gram: bool, **options: Any) -> str:
    """Learns vectors with gensim's `Word2Vec`, which has the other options.

    Returns:
      GloVe's text format: a line per word, followed by its numbers, the most frequent word first.
      The empty word, which some tokenizers have, gets no line.
    """
    from gensim.models import Word2Vec

    model = Word2Vec(workers=1, sg=int(skip_gram), **options)
    model.build_vocab(sentences)
    if model.epochs:
        model.train(sentences, total_examples=model.corpus_count, epochs=model.epochs)
    words = model.wv
    rows = zip(words.index_to_key, words.vectors.tolist(), strict=True)
    lines = (f"{word} {' '.join(f'{x:.6g}' for x in row)}\n" for word, row in rows if word)
    return "".join(lines)


def evaluate_vectors(path: pathlib.Path, config: ConfigDict) -> dict[str, float]:
    """Returns the metrics of word vectors by the evaluators of sentence pairs in `config.evals`.

    Args:
      path: file of vectors; the converted tower is written beside it, to `tower`.
      config: config of a run, whose folders are those of evaluators without their own.
    """
    import xmodal
    from xmodal.pretrained.converters import convert
    from xmodal.pretrained.folder import save_folder

    tower, metrics = path.parent / "tower", dict[str, float]()
    shutil.rmtree(tower, ignore_errors=True)  # Of a trial that was killed.
    save_folder(tower, *convert("words", path))
    model = xmodal.load(tower)
    for name, section in config.evals.to_dict().items():
        if section["type"] == "embedding_similarity":
            folders = {key: config.data[key] for key in ("data_dir", "manual_dir")}
            found = xmodal.evaluate(
                embed_texts=model.embed_texts,
                evaluator={key: section[key] for key in set(section) - {"data", "every"}},
                split=section["split"],
                similarity="cosine",
                **(folders | section["data"]),
            )
            metrics |= dataclasses.replace(found, evaluator=name).tagged
    return metrics


def search(config: ConfigDict, sentences: Sequence[Sequence[str]], folder: str, draws: int) -> None:
    """Runs the trials of a search and writes its report.

    Args:
      config: config whose section `word2vec` has the options of `learn_vectors`.
      sentences: the words of every training caption.
      folder: folder of the search.
      draws: number of trials.
    """
    from xmodal.apps.sweep import trials
    from xmodal.apps.sweep.plan import Plan
    from xmodal.core.config import lookup
    from xmodal.core.files import FINAL, format_json, write_file

    def train(trial: ConfigDict, run_dir: str, watch: trials.Watch) -> Mapping[str, float]:
        vectors = pathlib.Path(run_dir, "checkpoints", "words.txt")
        write_file(vectors, learn_vectors(sentences, **trial.word2vec))
        metrics = evaluate_vectors(vectors, trial)
        write_file(pathlib.Path(run_dir, FINAL, "metrics.json"), format_json(metrics))
        return metrics

    metric, evals = config.best_checkpoint.metric, config.evals.items()
    pairs = {name: each for name, each in evals if each.type == "embedding_similarity"}
    where = "config.best_checkpoint.metric, an evaluator of sentence pairs"
    lookup(where, metric.partition("/")[0], pairs)
    space = {f"word2vec.{key}": x for key, x in DRAWN.items() if not flags.FLAGS[key].present}
    plan = Plan(config, space, None, config.seed, metric, "max")
    place = pathlib.Path(folder)
    trials.search(plan, place, draws=draws, retry_failed=False, keep_all=False, train=train)


def main(argv: list[str]) -> None:
    """Reads the captions, learns the vectors and writes the file, or searches."""
    del argv
    config = config_flag.read_config()
    require_extra("word2vec", "gensim")
    from xmodal import data
    from xmodal.core.files import check_writable, write_file

    output = str(OUTPUT.value)
    check_writable(os.path.dirname(output) or ".")
    dataset = data.parse(config.data)
    captions = data.read_captions(dataset, config.train_split)
    sentences = split_captions(captions, dataset.text if AS_TOKENIZED.value else None)
    options: dict[str, Any] = {key: flags.FLAGS[key].value for key in DRAWN}
    options |= {"vector_size": WIDTH.value, "seed": config.seed}
    if draws := TRIALS.value:
        require_extra("sweep", "optuna")
        with config.unlocked():
            config.word2vec = options
        search(config, sentences, output, draws)
    else:
        text = learn_vectors(sentences, **options)
        write_file(output, text)
        logging.info("%s: %s words of %s captions.", output, text.count("\n"), len(captions))


if __name__ == "__main__":
    flags.mark_flags_as_required(["config", "output"])
    config_flag.run(main)
