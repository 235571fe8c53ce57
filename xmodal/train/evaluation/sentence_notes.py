"""Report notes on the evaluated captions: what is lost, and training captions among them."""

import functools
from collections.abc import Sequence
from typing import cast

from xmodal import data
from xmodal.data.text.text_config import SUBWORDS, TextConfig
from xmodal.data.text.text_counts import count_texts
from xmodal.data.text.tokenizers import word_splitter
from xmodal.data.text.words import cut_text, find_row, split_words
from xmodal.evals.scores.embed import Items
from xmodal.train.run_config import RunConfig


def describe_words(
    text: TextConfig, vocabulary: Sequence[str], captions: Sequence[str]
) -> list[str]:
    """Returns how many words have a vector; pieces of words always have one."""
    if text.tokenizer in SUBWORDS:
        return []
    rows = {token: row for row, token in enumerate(vocabulary)}
    # "words" are looked up as written first.
    is_plain = text.tokenizer == "words"
    split = split_words if is_plain else word_splitter(text)
    find = find_row if is_plain and text.lower_case else dict.get
    cut = functools.partial(cut_text, separators=text.separators, max_words=text.max_words)
    found = [find(rows, word) is not None for each in captions for word in split(cut(each))]
    share = sum(found) / max(len(found), 1)
    return [f"{sum(found):,} of {len(found):,} words ({share:.1%}) have a vector."]


def describe_captions(settings: data.DataConfig, train_split: str, split: Items) -> list[str]:
    """Returns the prompt of the captions, and how many are cut, empty or without a known word."""
    if settings.text is None or "text" not in split.sides:
        return []
    prompt = settings.text.prompt
    texts = [(prompt or "{}").replace("{}", text) for text in split.caption_texts]
    counts = count_texts(data.load_tokenizer(settings, train_split), texts)
    said = counts.describe("captions", "config.data.text.max_length")
    return [*([f"Captions are read as {prompt!r}."] if prompt else []), *([said] if said else [])]


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
