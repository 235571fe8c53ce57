"""The command that samples pairs, on stand-ins and on the released files."""

import sys

import numpy as np
import pytest

from data_prep.sampling.groups import make_groups
from xmodal.apps.analysis import sample_pairs
from xmodal.apps.analysis.ratings import rated_pairs
from xmodal.apps.analysis.sampling.samplers import group_vectors
from xmodal.core.errors import UnexpectedFilesError

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
    with pytest.raises(UnexpectedFilesError, match="lacks the column agg_score"):
        rated_pairs.read_folder(files / "pairs", "validation")
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


def test_missing_and_zero_embeddings_are_named(files, monkeypatch):
    with np.load(files / "cnn.npz") as arrays:
        ids, vectors = arrays["image_ids"], arrays["image_embeddings"]
    vectors[3] = 0
    np.savez(files / "cnn.npz", image_ids=ids[:-2], image_embeddings=vectors[:-2])
    with pytest.raises(SystemExit, match=r"cnn.npz has no direction for 3 of the 30 images"):
        within(files, monkeypatch)


def test_vectors_come_by_id_and_captions_as_means(tmp_path):
    """Images 10, 20, 30 with captions (1, 2), (3, 4), (5)."""
    groups = make_groups(np.arange(1, 6), np.array([10, 10, 20, 20, 30]), "here")
    captions = np.array([[5, 1], [4, 0], [2, 0], [0, 2], [2, 0], [7, 7]], np.float32)
    path = str(tmp_path / "captions.npz")
    ids = np.array([5, 4, 3, 2, 1, 99])
    np.savez(path, caption_ids=ids, caption_embeddings=captions, similarity="dot")
    assert group_vectors(path, "caption", groups).tolist() == [[1, 1], [3, 0], [5, 1]]


def test_groups_come_from_a_prepared_dataset(few_shapes, tmp_path, monkeypatch, capsys):
    rng = np.random.default_rng(0)
    np.savez(
        tmp_path / "cnn.npz",
        image_ids=np.arange(150, 200),
        image_embeddings=rng.normal(size=(50, 4)).astype(np.float32),
    )
    run(
        monkeypatch, "within", "--dataset=crisscrossed_shapes", f"--data_dir={few_shapes}",
        f"--images={tmp_path / 'cnn.npz'}", f"--output={tmp_path / 'pairs'}",
    )  # fmt: skip
    assert "DIFFERS" not in capsys.readouterr().out
    sts = rated_pairs.read_folder(tmp_path / "pairs", "test", need_scores=False)["sts"]
    assert set(sts.left_ids) == set(range(175 * 5, 200 * 5))


@pytest.mark.slow
def test_released_pairs_have_the_structure_of_the_scheme(real_data, monkeypatch, capsys):
    run(monkeypatch, "check", real_data / "cxc", f"--groups={real_data / 'cxc'}")
    printed = " ".join(capsys.readouterr().out.split())
    for fact in (
        "c2c_cocaption images whose captions form one cycle 5,000 5,000 ok",
        "c2c_isim pairs 19,045",
        "c2c_isim pairs of an image, fewest 5 at least 5 ok",
        "c2c_isim captions at the same place of their groups 19,045 19,045 ok",
        "c2c_isim first images whose captions take turns 4,689 4,689 ok",
        "c2c_isim captions used 20,818",
        "i2i_csim different pairs, in any order 43,856",
        "i2i_csim pairs in both orders 2,863",
        "i2i_csim pairs of an image, fewest 7",
        "i2i_csim pairs of an image, most 66",
        "c2i_intrasim from caption pairs only 7,149",
        "c2i_intrasim from image pairs only 8,533",
        "c2i_intrasim from both 4,151",
        "c2i_intrasim captions used 13,324",
        "c2i_original original or rated as matching 35,614",
    ):
        assert fact in printed
