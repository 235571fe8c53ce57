"""The section `config.data.text`: how texts become ids."""

import dataclasses

from xmodal.core.config import setting
from xmodal.core.errors import UserError

SUBWORDS = ("wordpiece", "bpe", "sentencepiece", "tokenizer_json")
"""Tokenizers with rules of their own for unknown words and special tokens."""
WORD_SETTINGS = {"min_count": 1, "unknown": "drop", "special_tokens": "none"}
"""Settings of all other tokenizers, with the values that `SUBWORDS` need."""
_WORDS = ("ptb", "nltk", "spaces", "words")
# Setting -> tokenizers that read it; others need its default.
_READ_BY = {
    **dict.fromkeys(WORD_SETTINGS, _WORDS),
    "reading": ("ptb", "nltk", "spaces"),
    "start": ("sentencepiece",),
    "end": ("sentencepiece",),
    "canonicalize": ("sentencepiece", "tokenizer_json"),
}
ID_FIELDS = (
    "tokenizer", "reading", "lower_case", "canonicalize", "unknown", "special_tokens", "start",
    "end", "pad", "attend_to_padding", "separators", "max_words",
)  # fmt: skip
"""Fields of `TextConfig` on which the token ids of a text depend, besides `vocabulary`."""


@dataclasses.dataclass(frozen=True)
class TokenAugmentConfig:
    """Random changes of training captions: those of PCME and VETE, or those of VSE-infinity.

    Attributes:
      unknown: probability that a token becomes the unknown token (PCME).
      delete: share of the tokens of a caption, rounded down, that is deleted afterwards (PCME).
      keep: number of tokens kept of a caption afterwards, besides special tokens; 0 for all (VETE
        trains on single words with 1).
      change: probability that a word is masked, replaced or deleted (VSE-infinity).
      mask: share of the changed words whose pieces all become the mask token.
      replace: share of the changed words whose pieces all become random entries of the vocabulary.
        The other changed words are deleted.
      change_special_tokens: whether special tokens are changed like words, as by the released code
        for words.
    """

    unknown: float = setting(0.0, at_least=0, at_most=1)
    delete: float = setting(0.0, at_least=0, at_most=1)
    keep: int = setting(0, at_least=0)
    change: float = setting(0.0, at_least=0, at_most=1)
    mask: float = setting(0.5, at_least=0, at_most=1)
    replace: float = setting(0.1, at_least=0, at_most=1)
    change_special_tokens: bool = False


@dataclasses.dataclass(frozen=True)
class TextConfig:
    """How texts become ids.

    Attributes:
      tokenizer: "wordpiece" for BERT; "bpe" for CLIP's byte pairs; "sentencepiece" for the model
        file of a SentencePiece tokenizer; "tokenizer_json" for a tokenizer.json of Hugging Face;
        "ptb" and "nltk" for words by nltk's two Treebank tokenizers; "spaces" for words as CMCM's
        authors split them; "words" for tables of published word vectors.
      vocabulary: path of the tokenizer's file: `merges.txt` for "bpe", `NAME.model` for
        "sentencepiece", `NAME.json` for "tokenizer_json", or else a vocab.txt, one token per line.
        CLIP's published merges are also read from openai/CLIP's bpe_simple_vocab_16e6.txt.gz, and
        from an installed package that ships it: "pip:open-clip-torch". "" to learn a vocab.txt
        from training captions.
      vocabulary_size: number of word pieces to learn; the result may be a few percent larger.
      min_count: words that occur less often in the training captions are not learned.
      unknown: for words outside the vocabulary, "drop" omits them and "token" uses `<unk>`.
        Word pieces always have `[UNK]`.
      special_tokens: "sentence" puts `<start>` and `<end>` around words, "none" nothing. Word
        pieces are always between `[CLS]` and `[SEP]`, and a tokenizer.json names its own special
        tokens.
      start: "sentencepiece": token before a text, such as `<s>`; "" for none.
      end: "sentencepiece": token after a text, also after a text that was cut; "" for none.
      pad: token that fills short texts; "" for the tokenizer's own, or id 0 if it has none.
      attend_to_padding: whether the model reads padding like words, as SigLIP does: the mask covers
        it, and all texts have `max_length` ids.
      max_length: T, number of ids of a padded text, including special tokens. Longer texts are cut.
      reading: "text", or "bytes" to read a text as Python shows its bytes, b'...', for weights of
        CVSE that were released: its authors' code did, so that first words are unknown.
      lower_case: "wordpiece": the model is uncased, lower-case and strip accents; "words": look up
        in lower case the words unknown as written; all others: lower-case the text.
      canonicalize: "sentencepiece" and "tokenizer_json": whether ASCII punctuation is removed
        first, as the SigLIP of transformers and open_clip does; big_vision, whose authors trained
        it, does so for class names only.
      separators: characters that separate words as spaces do, such as ".!"; "" for none.
      max_words: number of words, separated by spaces, that are kept before tokenization; 0 for all.
      augment: changes of training captions; None for none.
      prompt: text with `{}` for a caption, such as "a photo of {}", in which evaluators read the
        captions of a dataset; "" for captions alone. Training, the prompts of zero-shot
        classification and the Python API do not use it.
    """

    tokenizer: str = setting("wordpiece", one_of=(*SUBWORDS, *_WORDS))
    vocabulary: str = ""
    vocabulary_size: int = setting(1024, at_least=1)
    min_count: int = setting(1, at_least=1)
    unknown: str = setting("drop", one_of=("drop", "token"))
    special_tokens: str = setting("none", one_of=("none", "sentence"))
    start: str = ""
    end: str = ""
    pad: str = ""
    attend_to_padding: bool = False
    max_length: int = setting(48, at_least=1)
    reading: str = setting("text", one_of=("text", "bytes"))
    lower_case: bool = True
    canonicalize: bool = False
    separators: str = ""
    max_words: int = setting(0, at_least=0)
    augment: TokenAugmentConfig | None = None
    prompt: str = ""

    def __post_init__(self) -> None:
        if self.prompt and self.prompt.count("{}") != 1:
            raise UserError(
                f"config.data.text.prompt is {self.prompt!r}; it needs {{}} once, for the caption"
            )
        for name, tokenizers in _READ_BY.items():
            value = getattr(self, name)
            if value != getattr(TextConfig, name) and self.tokenizer not in tokenizers:
                raise UserError(
                    f"config.data.text.{name}={value!r} is a setting of the tokenizers "
                    f"{', '.join(tokenizers)}, not of {self.tokenizer!r}; remove it."
                )
