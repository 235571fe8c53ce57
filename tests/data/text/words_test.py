import re

import pytest

from xmodal.data.text.words import cut_text


@pytest.mark.parametrize("text", ["A dog (brown).  It runs!", "a\n b:c ~d", "x " * 40, ""])
def test_cuts_captions_as_blip_does(text):
    """The rule of salesforce/BLIP's `pre_caption`, written with its regular expressions."""
    spaced = re.sub(r"([.!\"()*#:;~])", " ", text)
    expected = " ".join(re.sub(r"\s{2,}", " ", spaced).strip().split()[:30])
    assert cut_text(text, separators='.!"()*#:;~', max_words=30) == expected
    assert cut_text(text, separators="", max_words=0) == text
