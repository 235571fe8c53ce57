"""The rows of word tables, and outputs over words, for vocabularies that are not known before."""

import jax
import numpy as np
import pytest

from configs import own_data, vete, vsrn
from xmodal.models.initializers import initialize_words
from xmodal.train.fill import fill


def rows_of(config, entries, **text):
    config.data.text.update(text)
    filled = fill(config, 100, entries)
    return filled.model.text.encoder.vocab_size, filled


def own_config():
    return own_data.complete(own_data.get_config(), "small")


@pytest.mark.parametrize(("entries", "rows"), [(1, 512), (488, 512), (512, 512), (535, 1024)])
def test_tables_of_learned_vocabularies_come_in_few_sizes(entries, rows):
    assert rows_of(own_config(), entries)[0] == rows


def test_files_and_numbers_are_taken_as_they_are(tmp_path):
    path = tmp_path / "vocab.txt"
    path.write_text("[PAD]\n[UNK]\na\n")
    assert rows_of(own_config(), 3, vocabulary=str(path))[0] == 3
    config = own_config()
    config.model.text.encoder.vocab_size = 700
    assert rows_of(config, 535)[0] == 700
    config = own_config()
    config.l2 = {"pattern": "text/", "scale": 1e-4}
    assert rows_of(config, 535)[0] == 535


def test_a_softmax_over_words_counts_no_other_rows():
    # A decoder has its own table and outputs; a language model shares the table of the encoder.
    rows, filled = rows_of(vsrn.get_config("quick"), 535)
    (module,) = [each.loss.module for each in filled.tasks.values() if each.loss.module]
    assert (rows, module.vocab_size) == (1024, 535)
    config = vete.get_config("pin_model,quick")
    assert any(task.loss.reads for task in config.tasks.values())
    assert rows_of(config, 535)[0] == 535


def test_first_vectors_of_words_do_not_depend_on_other_rows():
    for name in ("normal", "uniform"):
        init, key = initialize_words(name, None, 5), jax.random.key(3)
        few, many = init(key, (7, 5)), init(key, (512, 5))
        np.testing.assert_array_equal(few, many[:7])
