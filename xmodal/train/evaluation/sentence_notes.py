"""Report notes on the evaluated captions: what is lost, and training captions among them."""

from typing import cast

from xmodal import data
from xmodal.data.text.text_counts import count_texts
from xmodal.evals.scores.embed import Items


def describe_captions(settings: data.DataConfig, train_split: str, split: Items) -> list[str]:
    """Returns the prompt of the captions, and how many are cut, empty or without a known word."""
    if settings.text is None or "text" not in split.sides:
        return []
    prompt = settings.text.prompt
    texts = [(prompt or "{}").replace("{}", text) for text in split.caption_texts]
    counts = count_texts(data.load_tokenizer(settings, train_split), texts)
    notes = [f"Captions are read as {prompt!r}."] if prompt else []
    return [*notes, *filter(None, [counts.describe("captions", "config.data.text.max_length")])]


def describe_sentences(settings: data.DataConfig, train_split: str, split: Items) -> list[str]:
    """Returns how many sentences of each set of pairs are training captions; [] without sets."""
    if "set" not in split.labels or settings.text is None:
        return []
    try:
        counts = data.count_seen(settings, train_split, cast(data.EvalSplit, split))
    except data.DatasetMissingError:
        return ["Whether the sentences occur among the training captions is not known."]
    named = [f"{name} {n.seen:,} of {n.sentences:,}" for name, n in counts.items() if n.seen]
    return [f"Different sentences that are training captions: {', '.join(named) or 'none'}."]
