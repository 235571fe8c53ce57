import logging

import pytest

from data_prep.prepared import open_prepared
from xmodal.core.errors import NotPreparedError


def test_a_dataset_that_is_not_prepared_names_its_command(tmp_path, caplog):
    level = logging.getLogger("absl").level
    with pytest.raises(NotPreparedError) as raised:
        open_prepared("crisscrossed_shapes", "images", str(tmp_path))
    command = "python -m data_prep.build --dataset=crisscrossed_shapes --config=images"
    assert command in str(raised.value)
    assert not caplog.messages
    assert logging.getLogger("absl").level == level
