"""No entry of a table takes a key that it does not read."""

import dataclasses
import re

import pytest

from xmodal.base.config import UserError
from xmodal.models.devices import ONE_CPU
from xmodal.models.encoders import ENCODERS, make_encoder
from xmodal.models.heads import HEADS, make_head
from xmodal.models.projection import ProjectionConfig, make_projection
from xmodal.models.task_modules import TASK_MODULES, make_task_module
from xmodal.similarity import make_similarity
from xmodal.similarity.table import SIMILARITIES

WHERE = "config.some.part"
ENTRIES = [
    *(
        (lambda section: make_encoder(WHERE, section, ONE_CPU), name, row.config)
        for name, row in ENCODERS.items()
    ),
    *((lambda section: make_head(WHERE, section), name, row.config) for name, row in HEADS.items()),
    *(
        (lambda section: make_task_module(WHERE, section.pop("name"), section), name, row.config)
        for name, row in TASK_MODULES.items()
    ),
    (lambda section: make_projection(WHERE, {"unread": 1}), "", ProjectionConfig),
]


@pytest.mark.parametrize(("make", "name", "config"), ENTRIES)
def test_a_key_that_is_not_read_is_refused(make, name, config):
    known = sorted(field.name for field in dataclasses.fields(config))
    listed = re.escape(f"Unknown key(s) ['unread'] in {WHERE}; ") + f".*{re.escape(str(known))}"
    with pytest.raises(UserError, match=listed):
        make({"name": name, "unread": 1})


@pytest.mark.parametrize("name", SIMILARITIES)
def test_a_similarity_refuses_the_parameters_of_others(name):
    others = {key for row in SIMILARITIES.values() for key in row.parameters}
    for key in {"unread", *others} - set(SIMILARITIES[name].parameters):
        with pytest.raises(UserError, match=rf"Unknown key.*{key}.*temperature"):
            make_similarity({"name": name, key: 1.0}, WHERE)
