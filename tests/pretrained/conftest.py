"""PyTorch, and a CLIP and a SigLIP of transformers."""

import published_clip as published
import pytest

from tests.data.text.tiny_pieces import sentencepiece_model
from xmodal.data.text.tokenizer_files import FILES
from xmodal.models.encoders import resnet


@pytest.fixture
def small(monkeypatch):
    """Our ResNet-50 is as small as `make_resnet(torch, (2, 2))`."""
    monkeypatch.setitem(resnet.DEPTHS, "50", (2, 2))


@pytest.fixture
def torch(small):
    """PyTorch with a seed, and a small ResNet-50."""
    torch = pytest.importorskip("torch")
    torch.manual_seed(0)
    return torch


@pytest.fixture(scope="module")
def clip(tmp_path_factory):
    """A CLIP of transformers, and its folder."""
    torch = _torch()
    model, folder = published.make_clip(torch), tmp_path_factory.mktemp("clip")
    model.save_pretrained(folder)
    (folder / "merges.txt").write_text(published.MERGES)
    return model, folder


@pytest.fixture(scope="module")
def siglip(tmp_path_factory):
    """A SigLIP of transformers, and its folder."""
    torch = _torch()
    folder, pieces = tmp_path_factory.mktemp("siglip"), sentencepiece_model()
    (folder / "spiece.model").write_bytes(pieces)
    model = published.make_siglip(torch, len(FILES["sentencepiece.model"](pieces)))
    model.save_pretrained(folder)
    return model, folder


def _torch():
    pytest.importorskip("transformers")
    return pytest.importorskip("torch")
