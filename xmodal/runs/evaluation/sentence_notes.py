"""Report notes on the evaluated sentences: known words, and training captions among them."""

import functools
from collections.abc import Sequence
from typing import cast

from xmodal import data
from xmodal.evals.embed import Items
from xmodal.preprocessing import TextConfig
from xmodal.preprocessing.text_config import SUBWORDS
from xmodal.preprocessing.tokenizers import word_splitter
from xmodal.preprocessing.words import cut_text, find_row, split_words
from xmodal.runs.config.run_config import RunConfig


def describe_words(
    text: TextConfig, vocabulary: Sequence[str], captions: Sequence[str]
) -> list[str]:
    """Returns how many words have a vector; a model cannot distinguish captions without any.

    Pieces of words are not reported, since every text has some.
    """
    if text.tokenizer in SUBWORDS:
        return []
    rows = {token: row for row, token in enumerate(vocabulary)}
    # "words" are looked up as written first.
    is_plain = text.tokenizer == "words"
    split = split_words if is_plain else word_splitter(text)
    find = find_row if is_plain and text.lower_case else dict.get
    cut = functools.partial(cut_text, separators=text.separators, max_words=text.max_words)
    words = [split(cut(caption)) for caption in captions]
    known = [sum(find(rows, word) is not None for word in each) for each in words]
    count = sum(map(len, words))
    return [
        f"{sum(known):,} of {count:,} words ({sum(known) / max(count, 1):.1%}) have a vector; "
        f"{known.count(0):,} of {len(known):,} captions have none."
    ]


def describe_prompt(settings: data.DataConfig) -> list[str]:
    """Returns a note on the prompt of the captions; none without one."""
    prompt = "" if settings.text is None else settings.text.prompt
    return [f"Captions are read as {prompt!r}."] if prompt else []


def describe_sentences(settings: RunConfig, split: Items) -> list[str]:
    """Returns notes on the sentences of sets of pairs; none for any other split.

    They say how many words a run knows and how many sentences of each set it was trained on.
    """
    text = settings.data.text
    if "set" not in split.labels or text is None:
        return []
    vocabulary = data.load_vocabulary(settings.data, settings.train_split)
    notes = describe_words(text, vocabulary, split.caption_texts)
    try:
        pairs = cast(data.EvalSplit, split)
        counts = data.count_seen(settings.data, settings.train_split, pairs)
    except data.DatasetMissingError:
        return [*notes, "Whether the sentences occur among the training captions is not known."]
    named = [f"{name} {n.seen:,} of {n.sentences:,}" for name, n in counts.items() if n.seen]
    seen = ", ".join(named) or "none"
    return [*notes, f"Different sentences that are training captions: {seen}."]
