"""Words of published vectors, and their rows."""

from xmodal.data.text.words import split_words


def test_words_are_cut_as_those_of_published_vectors():
    assert split_words("Don't! The dog's well-known 1,000 balls... “yes” it\u2019s") == [
        *("Do", "n't", "!", "The", "dog", "'s", "well-known", "1,000", "balls", "..."),
        *("“", "yes", "”", "it", "'s"),
    ]
    assert split_words(" \n") == []
