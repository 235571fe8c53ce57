"""Writes the concept file of CVSE: `data_prep.concepts --dataset=flickr8k --output=concepts.json`.

The concepts are the noun lemmas of WordNet that most training captions name, or the words of a
published `category_concepts.json`. `config.init_from.concepts` and `xmodal convert --concepts` read
the file.
"""

import argparse
import json
import pathlib
from collections.abc import Callable
from typing import Any

import numpy as np

import data_prep
from data_prep.command_line import make_parser, parse
from data_prep.concept_counts import count_concepts
from xmodal.core import console
from xmodal.core.errors import UnexpectedFilesError, UserError
from xmodal.core.untrusted import pickles
from xmodal.core.untrusted.saved_arrays import DAMAGE, load_arrays

_NO_WORDNET = (
    "The lemmas come from WordNet, whose data is not installed: run `python -m nltk.downloader "
    "wordnet` once on a machine with a network, or copy its folder nltk_data/corpora/wordnet to "
    "one of the folders that nltk searches ({})."
)


@console.readable_errors()
def main() -> None:
    """Writes the file that the command line names."""
    args = _parse()
    content = _count(args)
    args.output.parent.mkdir(parents=True, exist_ok=True)
    args.output.write_text(json.dumps(content) + "\n", encoding="utf-8")
    print(
        f"{args.output}: {len(content['concepts'])} concepts, {len(content['forms'])} words that "
        f"name them, {len(content['joint'])} pairs of concepts in one caption"
    )


def _count(args: argparse.Namespace) -> dict[str, Any]:
    """The content of the file; see `count_concepts`."""
    from data_prep.prepared import open_configs, read_columns  # Slow to import.

    lemmatize, is_concept = load_wordnet()
    names = read_names(args.concepts) if args.concepts else ()
    vectors = read_vectors(args.word_vectors) if args.word_vectors else None
    place_of = data_prep.builder_class(args.dataset).data_dir_of
    data_dir = place_of(args.config, args.data_dir, args.manual_dir)
    prepared = open_configs(args.dataset, args.config, data_dir)
    captioned = [each for each in prepared if "captions" in each.info.features]
    if len(captioned) != 1:
        known = ", ".join(each.builder_config.name for each in captioned) or "none"
        raise UnexpectedFilesError(
            f"{args.dataset} is prepared in these configs with captions: {known}; choose one with "
            "--config"
        )
    columns = read_columns(captioned[0], args.split, ["captions"])
    texts = (text.decode("utf-8", "ignore") for each in columns["captions"] for text in each)
    content = count_concepts(
        texts, lemmatize=lemmatize, count=args.count, concepts=names, is_concept=is_concept
    )
    if vectors is not None:
        content["vectors"] = vectors.astype(np.float64).tolist()
    return content


def load_wordnet() -> tuple[Callable[[str], str], Callable[[str], bool]]:
    """Returns nltk's noun lemma of a word, and whether WordNet lists a lemma.

    Raises:
      UserError: the data of WordNet is not installed; says how to get it.
    """
    import nltk
    from nltk.corpus import wordnet
    from nltk.stem import WordNetLemmatizer

    try:
        wordnet.ensure_loaded()
    except LookupError as error:
        raise UserError(_NO_WORDNET.format(", ".join(nltk.data.path))) from error
    return WordNetLemmatizer().lemmatize, lambda lemma: bool(wordnet.synsets(lemma))


def read_names(path: pathlib.Path) -> list[str]:
    """Returns the words of a `category_concepts.json`, from word to number, in this order.

    Raises:
      UnexpectedFilesError: it is not such a file.
    """
    try:
        numbers = json.loads(path.read_text(encoding="utf-8"))
        names = sorted(numbers, key=numbers.__getitem__)
    except (OSError, ValueError, AttributeError, TypeError) as error:
        raise UnexpectedFilesError(f"{path} is not a category_concepts.json ({error}).") from error
    return names


def read_vectors(path: pathlib.Path) -> np.ndarray:
    """Returns the word vectors [K, E] of a .npy, or of a .pkl with one array.

    Raises:
      UnexpectedFilesError: it has none.
    """
    try:
        with path.open("rb") as file:
            found: Any = (
                load_arrays(file) if path.suffix == ".npy" else pickles.load(file, encoding="bytes")
            )
        vectors = np.asarray(found, np.float32)
    except (*DAMAGE, *pickles.DAMAGE) as error:
        raise UnexpectedFilesError(f"{path} has no word vectors ({error}).") from error
    return vectors


def _parse() -> argparse.Namespace:
    parser = make_parser("concepts", __doc__.split("\n")[0])
    parser.add_argument("--split", default="train", help="split whose captions are counted")
    parser.add_argument("--count", type=int, default=300, help="number of concepts")
    parser.add_argument(
        "--concepts", type=pathlib.Path, help="category_concepts.json: words to use instead"
    )
    parser.add_argument(
        "--word_vectors", type=pathlib.Path, help="word vectors of these concepts, .npy or .pkl"
    )
    parser.add_argument("--output", type=pathlib.Path, required=True, help="file to write")
    return parse(parser)


if __name__ == "__main__":
    main()
