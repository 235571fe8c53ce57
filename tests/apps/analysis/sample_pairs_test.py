"""The command that samples pairs, on stand-ins and on the released files."""

import sys

import numpy as np
import pytest

from xmodal.apps.analysis import sample_pairs
from xmodal.apps.analysis.ratings import rated_pairs

IMAGES = 30


def run(monkeypatch, *args):
    monkeypatch.setattr(sys, "argv", ["sample_pairs", *map(str, args)])
    sample_pairs.main()


@pytest.fixture
def files(tmp_path):
    """A table of groups, with ids that differ from positions and are unsorted, and embeddings."""
    rng = np.random.default_rng(0)
    image_ids = 1000 + 7 * rng.permutation(IMAGES)
    caption_ids = 500 + rng.permutation(IMAGES * 5)
    owners = np.repeat(image_ids, 5)
    rows = [f"{c},{i},val" for c, i in zip(caption_ids, owners, strict=True)]
    (tmp_path / "groups.csv").write_text(
        "\n".join(["caption_id,image_id,split", *rows, "1,1,test"])
    )
    np.savez(
        tmp_path / "cnn.npz",
        image_ids=image_ids,
        image_embeddings=rng.normal(size=(IMAGES, 6)).astype(np.float32),
    )
    for name in ("a", "b"):
        np.savez(
            tmp_path / f"{name}.npz",
            caption_ids=caption_ids[::-1],
            caption_embeddings=rng.normal(size=(IMAGES * 5, 6)).astype(np.float32),
        )
    return tmp_path


def within(files, monkeypatch, output="pairs", *more):
    captions = f"{files / 'a.npz'},{files / 'b.npz'}"
    run(
        monkeypatch, "within", "--split=validation", f"--groups={files / 'groups.csv'}",
        f"--images={files / 'cnn.npz'}", f"--captions={captions}",
        f"--output={files / output}", *more,
    )  # fmt: skip
    return {path.name: path.read_text() for path in (files / output).iterdir()}


def rate(files, name, seed):
    """Adds ratings to a file of pairs, as people would."""
    path = files / "pairs" / name
    header, *rows = path.read_text().splitlines()
    scores = np.random.default_rng(seed).uniform(0, 5, len(rows)).round(2)
    rated = [f"{header},agg_score", *(f"{row},{score}" for row, score in zip(rows, scores))]  # noqa: B905
    path.write_text("\n".join(rated) + "\n")


def test_pairs_are_sampled_rated_and_sampled_across(files, monkeypatch, capsys):
    contents = within(files, monkeypatch)
    assert set(contents) == {
        "sts_val.csv",
        "sis_val.csv",
        "structure_within_validation.txt",
        "sampling_within_validation.json",
    }
    assert "DIFFERS" not in capsys.readouterr().out
    sts = rated_pairs.read_folder(files / "pairs", "validation", need_scores=False)["sts"]
    assert np.sum(sts.methods == "c2c_cocaption") == IMAGES * 5
    assert set(sts.left_ids) <= set(range(500, 500 + IMAGES * 5))
    for seed, name in enumerate(("sts_val.csv", "sis_val.csv")):
        rate(files, name, seed)
    across = ["across", "--split=validation", f"--groups={files / 'groups.csv'}"]
    across += [f"--ratings_dir={files / 'pairs'}", f"--output={files / 'pairs'}"]
    run(monkeypatch, *across)
    printed = capsys.readouterr().out
    assert "DIFFERS" not in printed
    assert "from neither" in printed
    sits = rated_pairs.read_folder(files / "pairs", "validation", need_scores=False)["sits"]
    assert np.sum(sits.methods == "c2i_intrasim") == IMAGES * 4
    run(monkeypatch, "check", files / "pairs", "--split=validation", f"--groups={files / 'pairs'}")
    # Sampling again would lose the ratings.
    with pytest.raises(SystemExit, match="has ratings"):
        within(files, monkeypatch)


@pytest.mark.slow
def test_released_pairs_have_the_structure_of_the_scheme(real_data, monkeypatch, capsys):
    run(monkeypatch, "check", real_data / "cxc", f"--groups={real_data / 'cxc'}")
    printed = " ".join(capsys.readouterr().out.split())
    for fact in (
        "c2c_cocaption images whose captions form one cycle 5,000 5,000 ok",
        "c2c_isim captions at the same place of their groups 19,045 19,045 ok",
        "i2i_csim different pairs, in any order 43,856",
        "i2i_csim pairs in both orders 2,863",
        "c2i_intrasim from caption pairs only 7,149",
        "c2i_original original or rated as matching 35,614",
    ):
        assert fact in printed
