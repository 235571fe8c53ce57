"""Files of the ledger: found, missing, or damaged."""

import dataclasses
import hashlib
import pathlib
import re

from xmodal.apps.ledger.ledger_entries import Files, Ledger, System, read_ledger
from xmodal.apps.ledger.ledger_files import describe_missing, folders_of, missing_files
from xmodal.pretrained.packaged_towers import PACKAGED

CONTENT = b"weights"
CHECKSUM = hashlib.sha256(CONTENT).hexdigest()
LEDGER = Ledger(
    titles={},
    rows=(),
    files={
        "labels": Files("the labels", "https://labels", ("a.csv",), folder="."),
        "model": Files(
            "the model",
            "https://model",
            ("m.bin",),
            folder="weights",
            bytes={"m.bin": len(CONTENT)},
            sha256={"m.bin": CHECKSUM},
        ),
        "package": Files("the package", "pip install numpy", ("__init__.py",), package="numpy"),
    },
    commands={},
)
SYSTEM = System("group/system", "system", needs=("labels", "model", "package"))


def test_files_are_found_in_both_kinds_of_folders(tmp_path, monkeypatch):
    monkeypatch.delenv("XMODAL_TEST_DATA", raising=False)
    missing = missing_files(SYSTEM, LEDGER, folders_of(LEDGER, []))
    assert missing == {"labels": ["a.csv"], "model": ["m.bin"]}
    said = describe_missing(missing, LEDGER)
    facts = f"7 bytes, SHA-256 {CHECKSUM}"
    assert f"the model: m.bin ({facts}) is missing: from https://model; --folder=weights" in said

    (tmp_path / "cxc").mkdir()
    (tmp_path / "cxc/a.csv").touch()  # in a folder of the folder
    monkeypatch.setenv("XMODAL_TEST_DATA", str(tmp_path))
    assert missing_files(SYSTEM, LEDGER, folders_of(LEDGER, [])) == {"model": ["m.bin"]}
    (tmp_path / "other").mkdir()
    (tmp_path / "other/m.bin").write_bytes(CONTENT)
    folders = folders_of(LEDGER, [f"weights={tmp_path}/other"])
    assert folders["weights"] == tmp_path / "other"
    assert not missing_files(SYSTEM, LEDGER, folders)


def test_one_of_several_names_is_enough(tmp_path):
    pictures = Files("pictures", "https://p", ("a.zip|a",), folder="p", bytes={"a.zip": 7})
    ledger = dataclasses.replace(LEDGER, files={"pictures": pictures})
    system, folders = dataclasses.replace(SYSTEM, needs=("pictures",)), {"p": tmp_path}
    missing = missing_files(system, ledger, folders)
    assert "pictures: a.zip (7 bytes) or a is missing" in describe_missing(missing, ledger)
    # Commands read the folder itself.
    (tmp_path / "inner").mkdir()
    (tmp_path / "inner/a.zip").write_bytes(CONTENT)
    assert missing_files(system, ledger, folders) == missing
    (tmp_path / "a").mkdir()
    assert not missing_files(system, ledger, folders)


def test_systems_need_the_files_that_their_commands_read():
    """A publisher has many models; each system needs its own, and no folder that it never reads."""
    ledger = read_ledger()
    missing = missing_files(ledger.systems["sgraf/sgr_flickr30k"], ledger, {})
    vocabulary = "vocab/f30k_precomp_vocab.json"
    assert missing["sgraf"] == ["sgraf/f30k_SGR/model_best.pth.tar", vocabulary]
    compared = 0
    for system in ledger.systems.values():
        names = [name for key in system.needs for name in ledger.names_of(key, system)]
        for path in re.findall(r"{weights}/(\S+)", " ".join(ledger.commands_of(system))):
            # A folder may stand for its files, and the prefix of a checkpoint for the folder.
            assert any(f"{path}/".startswith(f"{n}/") or n.startswith(f"{path}/") for n in names)
            compared += 1
        for key in system.needs if system.run else ():
            assert ledger.names_of(key, system), (system.name, key)
    assert compared > 100


def test_packaged_towers_have_the_checksums_of_the_ledger():
    files = read_ledger().files
    for key, tower in PACKAGED.items():
        named = {pathlib.PurePath(name).name: name for name in files[key].names}
        assert files[key].sha256[named[tower.file]] == tower.sha256
        assert named[tower.file] in files[key].bytes
        assert tower.package in files[key].source
