"""Tiny SentencePiece models and tokenizer.json files, trained on a few captions."""

import io

import pytest

CAPTIONS = [
    "A red circle left of a blue square!",
    "two dogs, running; one ball",
    "the reddish star above the striped wall",
    "Stars and circles and squares",
] * 5
AWKWARD = ["", " ", "RED  circle", "ein größerer Kreis", "</s> <pad> star", "日本 star!", "a\tb\nc"]
SENTENCEPIECE = dict(pad_id=0, eos_id=1, unk_id=2, bos_id=3)


def sentencepiece_model(**options):
    """The content of a model with the special pieces of SigLIP's, and `<s>`."""
    sentencepiece = pytest.importorskip("sentencepiece", reason="SentencePiece models need it")
    content = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(CAPTIONS), model_writer=content, vocab_size=60,
        hard_vocab_limit=False, minloglevel=2, num_threads=1, **{**SENTENCEPIECE, **options},
    )  # fmt: skip
    return content.getvalue()


def tokenizer_json(model="bpe", template="[CLS] $A [SEP]", **padding):
    """The content of a tokenizer.json, which lower-cases texts."""
    library = pytest.importorskip("tokenizers", reason="a tokenizer.json needs it")
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    if model == "bpe":
        tokenizer = library.Tokenizer(library.models.BPE(unk_token="[UNK]"))
        trainer = library.trainers.BpeTrainer(
            vocab_size=90, special_tokens=special, show_progress=False
        )
        tokenizer.pre_tokenizer = library.pre_tokenizers.Whitespace()
    else:
        tokenizer = library.Tokenizer(library.models.Unigram())
        trainer = library.trainers.UnigramTrainer(
            vocab_size=90, special_tokens=special, unk_token="[UNK]", show_progress=False
        )
        tokenizer.pre_tokenizer = library.pre_tokenizers.Metaspace()
    tokenizer.normalizer = library.normalizers.Lowercase()
    tokenizer.train_from_iterator(CAPTIONS, trainer)
    if template:
        ids = [(token, tokenizer.token_to_id(token)) for token in special]
        tokenizer.post_processor = library.processors.TemplateProcessing(
            single=template, special_tokens=ids
        )
    tokenizer.enable_truncation(3)
    if padding:
        tokenizer.enable_padding(**padding)
    return tokenizer.to_str().encode()
