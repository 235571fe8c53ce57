"""`training_args.bin` of microsoft/Oscar: its values are taken, assumed by name, or refused."""

import argparse
import os

import pytest

from xmodal.core.errors import UserError
from xmodal.pretrained.oscar_arguments import FILE, read_oscar_arguments
from xmodal.pretrained.weight_files import WeightSource

torch = pytest.importorskip("torch")

OF_VINVL = {
    "max_seq_length": 70, "max_img_seq_length": 70, "add_od_labels": True, "od_label_type": "vg",
    "do_lower_case": True, "att_mask_type": "CLR", "output_mode": "classification",
    "num_labels": 2, "loss_type": "sfmx",
}  # fmt: skip


class Hostile:
    """A pickle of it makes a folder when it is loaded."""

    def __init__(self, path):
        self.path = str(path)

    def __reduce__(self):
        return os.mkdir, (self.path,)


def read(path, *, retrieves=True, is_zip=True, **changes):
    # `device` is an object of torch, as in the released files.
    values = OF_VINVL | {"device": torch.device("cpu"), "learning_rate": 2e-5} | changes
    values = {name: value for name, value in values.items() if value is not None}
    arguments = argparse.Namespace(**values)
    torch.save(arguments, path / FILE, _use_new_zipfile_serialization=is_zip)
    return read_oscar_arguments(WeightSource(str(path), {}, {}), retrieves=retrieves)


@pytest.mark.parametrize("is_zip", [True, False])
def test_values_are_those_of_the_file(tmp_path, is_zip):
    lengths = {"max_seq_length": 50, "max_img_seq_length": 40}
    # Nothing reads the kind of tags that a model lacks.
    others = {"add_od_labels": False, "do_lower_case": False, "od_label_type": "oid"}
    found = read(tmp_path, is_zip=is_zip, **lengths, **others)
    assert (found.words, found.regions, found.tags, found.lower_case) == (50, 40, False, False)
    assert found.note == ""


def test_assumed_values_are_named(tmp_path):
    found = read_oscar_arguments(WeightSource(str(tmp_path), {}, {}), retrieves=True)
    assert (found.words, found.regions, found.tags, found.lower_case) == (70, 70, True, True)
    assert "since there is no training_args.bin: " in found.note
    assert all(f"{name}={value!r}" in found.note for name, value in OF_VINVL.items())
    found = read(tmp_path, max_seq_length=50, att_mask_type=None, loss_type=None)
    assert found.words == 50
    assert found.note.endswith(
        "training_args.bin lacks them: att_mask_type='CLR', loss_type='sfmx'."
    )
    # Those of a pretraining are not those of a retrieval, except for the words.
    found = read(tmp_path, retrieves=False, max_seq_length=35, do_lower_case=False)
    assert (found.words, found.regions, found.lower_case) == (70, 70, False)
    assert "is of the pretraining, not of retrieval: max_seq_length=70, " in found.note
    assert "do_lower_case" not in found.note


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"od_label_type": "oid"}, "has od_label_type='oid', and only 'vg' can be computed here"),
        ({"loss_type": "kl"}, "has loss_type='kl', and only 'sfmx' .* convert a folder that was"),
        ({"num_labels": 1}, "has num_labels=1, and only 2"),
        ({"att_mask_type": "CL"}, "has att_mask_type='CL', and only 'CLR'"),
        ({"max_seq_length": True}, "has max_seq_length=True, not of the type int of at least 3"),
        ({"max_img_seq_length": 0}, "has max_img_seq_length=0, not of the type int of at least 1"),
        ({"add_od_labels": "yes"}, "has add_od_labels='yes', not of the type bool"),
    ],
)
def test_what_cannot_be_computed_is_refused(tmp_path, changes, message):
    with pytest.raises(UserError, match=f"training_args.bin {message}"):
        read(tmp_path, **changes)


def test_a_pickle_calls_nothing(tmp_path):
    made, file = tmp_path / "made", tmp_path / FILE
    with pytest.raises(UserError, match=r"has max_seq_length=Inert, not of the type int"):
        read(tmp_path, max_seq_length=Hostile(made))
    assert read(tmp_path, unused=Hostile(made)).words == 70
    for other in (Hostile(made), {"max_seq_length": 50}, argparse.Namespace):
        torch.save(other, file)
        with pytest.raises(UserError, match=r"training_args.bin has an object of the class .* not"):
            read_oscar_arguments(WeightSource(str(tmp_path), {}, {}), retrieves=True)
    torch.save(Hostile(made), file)
    assert not made.exists()
    torch.load(file, weights_only=False)
    assert made.exists()
