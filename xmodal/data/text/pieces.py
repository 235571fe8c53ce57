"""Turns texts into the ids of word pieces, byte pairs and SentencePiece, by their libraries.

BERT's word pieces, CLIP's byte pairs and any tokenizer.json are read by `tokenizers`, models of
SentencePiece by `sentencepiece`.
"""

import collections
import dataclasses
import functools
import html
import itertools
import json
import string
from collections.abc import Callable, Sequence
from typing import Any

from tokenizers import Encoding, Regex, Tokenizer, models, normalizers, pre_tokenizers

from xmodal.core.errors import UserError
from xmodal.data.text import tokenizer_files
from xmodal.data.text.text_config import TextConfig
from xmodal.data.text.tokenizer_files import TokenizerFile
from xmodal.data.text.words import MASK, PAD, UNKNOWN

SPECIAL_TOKENS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")

_CLIP_WORDS = r"(?i)'s|'t|'re|'ve|'m|'ll|'d|\p{L}+|\p{N}|[^\s\p{L}\p{N}]+"
_MAX_CHARS_PER_WORD = 200  # As in BERT.
_SPACE_MARK = "\N{LOWER ONE EIGHTH BLOCK}"  # SentencePiece's mark of the blank before a piece.
_PROBE = "a photo"  # Any text with a token.
_WITHOUT_PUNCTUATION = str.maketrans("_", " ", string.punctuation.replace("_", ""))

# Every epoch has each caption; 2^17 texts are less than 100 MB.
remember = functools.lru_cache(2**17)


@dataclasses.dataclass(frozen=True)
class Pieces:
    """How a kind of tokenizer turns texts into ids, and its special tokens.

    Attributes:
      ids_of: function of a text that returns its ids, without special tokens.
      by_word: the same, with separate ids for each word.
      start: tokens before a text.
      end: tokens after a text.
      pad: padding token, unless the config names one; id 0 if the vocabulary has no such token.
      unknown: token of unknown words, which augmentation may insert.
      mask: token of masked words, which augmentation may insert.
      library: the tokenizer of `tokenizers` that reads cleaned texts, if there is one.
    """

    ids_of: Callable[[str], Sequence[int]]
    by_word: Callable[[str], list[list[int]]]
    start: Sequence[str] = ()
    end: Sequence[str] = ()
    pad: str = PAD
    unknown: str = UNKNOWN
    mask: str = MASK
    library: Tokenizer | None = None


def word_pieces(file: TokenizerFile, config: TextConfig) -> Pieces:
    """Returns the word pieces of BERT, by the rules of google-research/bert.

    They differ for characters that Unicode does not assign or that it assigned lately, and for a
    capital sigma that ends a word.
    """
    ids = {token: number for number, token in enumerate(file)}
    tokenizer = Tokenizer(
        models.WordPiece(ids, unk_token="[UNK]", max_input_chars_per_word=_MAX_CHARS_PER_WORD)
    )
    tokenizer.normalizer = _bert_normalizer(config.lower_case)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    return _from_library(
        tokenizer, start=["[CLS]"], end=["[SEP]"], pad="[PAD]", unknown="[UNK]", mask="[MASK]"
    )


def count_words(texts: Sequence[str], lower_case: bool) -> dict[str, int]:
    """Returns how often texts have each of the words and punctuation marks that have pieces."""
    normalize, split = _bert_normalizer(lower_case), pre_tokenizers.BertPreTokenizer()
    return collections.Counter(
        word for text in texts for word, _ in split.pre_tokenize_str(normalize.normalize_str(text))
    )


def _bert_normalizer(lower_case: bool) -> normalizers.BertNormalizer:
    return normalizers.BertNormalizer(strip_accents=lower_case, lowercase=lower_case)


def byte_pairs(file: TokenizerFile, config: TextConfig) -> Pieces:
    """Returns CLIP's byte pairs, from a merges.txt.

    Sennrich et al., "Neural Machine Translation of Rare Words with Subword Units" (2016), on bytes
    as in GPT-2, with openai/CLIP's clean-up, end-of-word mark, order of ids and pattern of words.
    """
    try:
        from ftfy import fix_text
    except ImportError as error:
        raise UserError(
            "CLIP's byte pairs need ftfy: pip install 'xmodal[tokenizers]', or pip install ftfy."
        ) from error
    ids = {token: number for number, token in enumerate(file)}
    merges = tokenizer_files.read_merges(file.content)
    tokenizer = Tokenizer(
        models.BPE(ids, merges, end_of_word_suffix=tokenizer_files.WORD_END, fuse_unk=False)
    )
    # A text that spells a special token has its id.
    tokenizer.add_special_tokens([tokenizer_files.START, tokenizer_files.END])
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(_CLIP_WORDS), behavior="removed", invert=True),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )

    def clean(text: str) -> str:
        text = " ".join(html.unescape(html.unescape(fix_text(text))).split())
        return text.lower() if config.lower_case else text

    # Padding is id 0, and nothing is unknown or masked.
    return _from_library(tokenizer, clean, start=[tokenizer_files.START], end=[tokenizer_files.END])


def json_pieces(file: TokenizerFile, config: TextConfig) -> Pieces:
    """Returns the pieces of a tokenizer.json of Hugging Face.

    The file defines normalization, words, pieces and special tokens. Truncation and padding are
    those of the config.
    """
    tokenizer = tokenizer_files.load_json(file.content)
    marked = tokenizer.encode(_PROBE)
    places = [n for n, special in enumerate(marked.special_tokens_mask) if not special]
    settings = json.loads(file.content.decode("utf-8-sig"))
    model, number = settings["model"], settings["model"].get("unk_id")
    pad = (settings.get("padding") or {}).get("pad_token")
    return _from_library(
        tokenizer,
        functools.partial(_clean, config),
        start=marked.tokens[: places[0]],
        end=marked.tokens[places[-1] + 1 :],
        pad=pad or ("[PAD]" if "[PAD]" in file else PAD),
        unknown=model.get("unk_token") or ("" if number is None else file[number]),
        mask="[MASK]" if "[MASK]" in file else MASK,
    )


def _from_library(
    tokenizer: Tokenizer, clean: Callable[[str], str] = str, **special: Any
) -> Pieces:
    def encode(text: str) -> Encoding:
        return tokenizer.encode(clean(text), add_special_tokens=False)

    def by_word(text: str) -> list[list[int]]:
        encoding = encode(text)
        pairs = zip(encoding.word_ids, encoding.ids, strict=True)
        groups = itertools.groupby(pairs, key=lambda pair: pair[0])
        return [[number for _, number in group] for _, group in groups]

    ids_of = remember(lambda text: tuple(encode(text).ids))
    return Pieces(ids_of, by_word, library=tokenizer, **special)


def sentence_pieces(file: TokenizerFile, config: TextConfig) -> Pieces:
    """Returns the pieces of a model file of SentencePiece.

    Kudo and Richardson, "SentencePiece: A simple and language independent subword tokenizer and
    detokenizer for Neural Text Processing" (2018).
    """
    model = tokenizer_files.load_sentence_pieces(file.content)

    def ids_of(text: str) -> list[int]:
        return model.encode(_clean(config, text), out_type=int)

    def by_word(text: str) -> list[list[int]]:
        words: list[list[int]] = []
        for number in ids_of(text):
            if not words or model.id_to_piece(number).startswith(_SPACE_MARK):
                words.append([])
            words[-1].append(number)
        return words

    return Pieces(
        ids_of,
        by_word,
        start=[config.start] if config.start else [],
        end=[config.end] if config.end else [],
        pad=model.id_to_piece(model.pad_id()) if model.pad_id() >= 0 else PAD,
        unknown=model.id_to_piece(model.unk_id()),
    )


def _clean(config: TextConfig, text: str) -> str:
    """Cleans a text for SentencePiece and tokenizer.json.

    `canonicalize` follows `canonicalize_text` of google-research/big_vision.
    """
    if config.canonicalize:
        text = " ".join(text.translate(_WITHOUT_PUNCTUATION).split())
    return text.lower() if config.lower_case else text
