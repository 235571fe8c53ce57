"""Words of published vectors, and their rows."""

from xmodal.data.text.words import find_row, split_words


def test_words_are_cut_as_those_of_published_vectors():
    assert split_words("Don't! The dog's well-known 1,000 balls... “yes” it\u2019s") == [
        *("Do", "n't", "!", "The", "dog", "'s", "well-known", "1,000", "balls", "..."),
        *("“", "yes", "”", "it", "'s"),
    ]
    assert split_words(" \n") == []


def test_every_period_stands_alone():
    assert split_words("He ran. She sat (down).") == [
        *("He", "ran", ".", "She", "sat", "(", "down", ")", "."),
    ]


def test_rows_are_found_as_written_and_then_in_lower_case():
    rows = {"Dog": 0, "dog": 1, "the": 2}
    assert [find_row(rows, word) for word in ("Dog", "DOG", "The", "cat")] == [0, 1, 2, None]
