r"""Learns word vectors from training captions with gensim's Word2Vec, VETE's text-only baseline.

    python -m xmodal word2vec --config=configs/vete.py --output=word2vec.txt
    python -m xmodal convert --tower=words --source=word2vec.txt --output=weights/word2vec
    python -m xmodal.eval_main --config=configs/sts.py:bow \
        --config.init_from.towers.text=weights/word2vec --config.data.manual_dir=STS --output=OUT

The captions are those of `config.data` and `config.train_split`, lowercased and split into words in
the same way as for tables of word vectors (`xmodal.data.text.words`), or, with --as_tokenized,
as the config splits them. A single worker runs, so that the same seed gives the same vectors.
Mikolov et al. 2013; gensim is an extra: `pip install "xmodal[word2vec]"`.
"""

import functools
import os
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from absl import flags, logging

from xmodal.apps import config_flag, output_flag
from xmodal.apps.arguments import require_extra
from xmodal.apps.output_flag import OUTPUT

if TYPE_CHECKING:
    from xmodal.data.text.text_config import TextConfig

flags.adopt_module_key_flags(config_flag)
flags.adopt_module_key_flags(output_flag)
WIDTH = flags.DEFINE_integer("width", 128, "Width of the vectors.", lower_bound=1)
WINDOW = flags.DEFINE_integer("window", 5, "Context words on either side.", lower_bound=1)
MIN_COUNT = flags.DEFINE_integer("min_count", 4, "Rarer words have no vector.", lower_bound=1)
EPOCHS = flags.DEFINE_integer("epochs", 20, "Passes over the captions.", lower_bound=1)
SKIP_GRAM = flags.DEFINE_bool("skip_gram", True, "Skip-gram; else a continuous bag of words.")

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


def learn_vectors(sentences: Sequence[Sequence[str]], **options: Any) -> str:
    """Learns vectors with gensim's `Word2Vec`, which has the options.

    Returns:
      GloVe's text format: a line per word, followed by its numbers, the most frequent word first.
      The empty word, which some tokenizers have, gets no line.
    """
    from gensim.models import Word2Vec

    words = Word2Vec(sentences, workers=1, **options).wv
    rows = zip(words.index_to_key, words.vectors.tolist(), strict=True)
    lines = (f"{word} {' '.join(f'{x:.6g}' for x in row)}\n" for word, row in rows if word)
    return "".join(lines)


def main(argv: list[str]) -> None:
    """Reads the captions, learns the vectors and writes the file."""
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
    text = learn_vectors(
        sentences,
        min_count=MIN_COUNT.value,
        vector_size=WIDTH.value,
        window=WINDOW.value,
        epochs=EPOCHS.value,
        sg=int(SKIP_GRAM.value),
        seed=config.seed,
    )
    write_file(output, text)
    logging.info("%s: %s words of %s captions.", output, text.count("\n"), len(captions))


if __name__ == "__main__":
    flags.mark_flags_as_required(["config", "output"])
    config_flag.run(main)
