"""Cards of bundles whose hash fits and whose content does not."""

import json

import pytest

from xmodal.api.bundles import card
from xmodal.core.errors import UserError

_CONTENT = {
    "made_with": {}, "source": {}, "platforms": ["cpu"], "requires": [], "parameters": {},
    "similarity": {"name": "dot"}, "image": None, "text": None,
}  # fmt: skip
_RECORD = {"bytes": 1, "sha256": "0"}


@pytest.mark.parametrize(
    "change",
    [
        {"files": ["weights.safetensors"]},
        {"files": {"weights.safetensors": "x"}},
        {"files": {"weights.safetensors": {"bytes": "1", "sha256": "0"}}},
        {"files": {"weights.safetensors": _RECORD | {"more": 1}}},
        {"files": {"../weights.safetensors": _RECORD}},
        {"files": {"weights.safetensors": _RECORD}},  # It is missing.
        {"files": {}, "text": {"lengths": ["/../../x"]}},
        {"files": {}, "image": [1]},
        {"files": {}, "platforms": 3},
    ],
)
def test_only_files_of_the_card_are_opened(tmp_path, change):
    content = {"format": card.FORMAT, "version": card.VERSION, **_CONTENT, **change}
    content["sha256"] = card._hash(content)
    (tmp_path / card.CARD).write_text(json.dumps(content))
    (tmp_path.parent / "weights.safetensors").write_bytes(b"x")
    with pytest.raises(UserError):
        card.read_bundle(tmp_path)
