"""Word vector files, as published and damaged."""

import gzip
import struct

import numpy as np
import pytest

from xmodal.core.errors import UserError
from xmodal.pretrained.converters import convert
from xmodal.pretrained.word_vectors import find_vectors, load_word_vectors

# As in published files: words with spaces inside, other alphabets, a repeated word.
WORDS = [",", "dog", "a", ". . .", "at name@domain.com", "été", "x\u00a0y", "7", "dog", "end"]
VECTORS = np.random.default_rng(0).normal(size=(len(WORDS), 3)).astype(np.float32)
KEPT = [i for i in range(len(WORDS)) if i != 8]


def text_file(header=False, trailing=""):
    lines = [f"{len(WORDS)} 3"] if header else []
    lines += [
        " ".join([word, *map(repr, map(float, v))]) for word, v in zip(WORDS, VECTORS, strict=True)
    ]
    return "".join(line + trailing + "\n" for line in lines).encode()


def binary_file(separator=b"\n"):
    body = b"".join(
        word.encode() + b" " + struct.pack("<3f", *v) + separator
        for word, v in zip(SINGLE_WORDS, VECTORS, strict=True)
    )
    return b"10 3\n" + body


# In the binary format, a space ends a word.
SINGLE_WORDS = [word.replace(" ", "_") for word in WORDS]
FORMS = {
    "glove.txt": (text_file(), WORDS),
    "crlf.txt": (text_file().replace(b"\n", b"\r\n"), WORDS),
    "fasttext.vec": (text_file(header=True, trailing=" "), WORDS),
    "packed.txt": (gzip.compress(text_file()), WORDS),
    "word2vec.bin": (binary_file(), SINGLE_WORDS),
    "tight.bin": (binary_file(b""), SINGLE_WORDS),
}


def write(tmp_path, name, content):
    path = tmp_path / name
    path.write_bytes(content)
    return path


@pytest.mark.parametrize("name", FORMS)
def test_reads_the_published_forms(tmp_path, name):
    content, words = FORMS[name]
    table = load_word_vectors(write(tmp_path, name, content))
    assert list(table.rows) == [words[i] for i in KEPT]
    assert list(table.rows.values()) == list(range(len(KEPT)))
    assert table.vectors.dtype == np.float32
    np.testing.assert_array_equal(table.vectors, VECTORS[KEPT])


def test_reads_arrays(tmp_path):
    vectors = VECTORS.astype(np.float16)
    np.savez(tmp_path / "table.npz", words=np.array(WORDS), vectors=vectors)
    table = load_word_vectors(tmp_path / "table.npz")
    assert list(table.rows) == [WORDS[i] for i in KEPT]
    assert table.vectors.dtype == np.float32
    np.testing.assert_array_equal(table.vectors, vectors[KEPT])


def test_damaged_files(tmp_path):
    with pytest.raises(UserError, match="cut.bin cannot .* has 9 words, its start says 10"):
        load_word_vectors(write(tmp_path, "cut.bin", binary_file()[:-6]))


def test_a_vocabulary_is_looked_up(tmp_path):
    rows = {"dog": 1, "tshirt": 2, "black": 3, "t-shirts": 4, "Cat": 5}
    path = tmp_path / "glove.txt"
    path.write_text("".join(f"{word} {value} 0.5\n" for word, value in rows.items()))
    words = ["<pad>", "t-shirt", "t-shirts", "black/white", "dog", "cat", "zzz", "."]
    found = find_vectors(path, words)
    assert {number: vector.tolist() for number, vector in found.items()} == {
        1: [2, 0.5], 2: [4, 0.5], 3: [3, 0.5], 4: [1, 0.5]
    }  # fmt: skip


def test_a_table_of_words_is_a_tower(tmp_path):
    """Every word that the tokenizer can produce, or those of a vocabulary."""
    path, vocabulary = write(tmp_path, "glove.txt", text_file()), tmp_path / "vocab.txt"
    arrays, description, _ = convert("words", path)
    kept = [row for row in KEPT if WORDS[row].split() == [WORDS[row]]]
    assert description.encoder == {"name": "words", "vocab_size": len(kept), "width": 3}
    assert description.files["vocab.txt"].decode() == "".join(f"{WORDS[row]}\n" for row in kept)
    np.testing.assert_array_equal(arrays["params/encoder/table"], VECTORS[kept])
    vocabulary.write_text("<pad>\n7\ncow\ndog\n")
    arrays, description, _ = convert("words", path, "", str(vocabulary))
    assert description.files["vocab.txt"] == b"dog\n7\n"
    np.testing.assert_array_equal(arrays["params/encoder/table"], VECTORS[[1, 7]])
    vocabulary.write_text("cow\nox\n")
    with pytest.raises(UserError, match=r"glove.txt has no word of .*vocab.txt with a vector"):
        convert("words", path, "", str(vocabulary))
