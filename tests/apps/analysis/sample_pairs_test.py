"""The command that samples pairs, on stand-ins and on the released files."""

import sys

import numpy as np
import pytest

from xmodal.apps.analysis import sample_pairs, samplers
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
    assert set(contents) == {"sts_val.csv", "sis_val.csv", "sampling_within_validation.json"}
    assert f"c2c_cocaption: {IMAGES * 5} pairs" in capsys.readouterr().out
    sts = rated_pairs.read_folder(files / "pairs", "validation", need_scores=False)["sts"]
    assert np.sum(sts.methods == "c2c_cocaption") == IMAGES * 5
    assert set(sts.left_ids) <= set(range(500, 500 + IMAGES * 5))
    for seed, name in enumerate(("sts_val.csv", "sis_val.csv")):
        rate(files, name, seed)
    across = ["across", "--split=validation", f"--groups={files / 'groups.csv'}"]
    across += [f"--ratings_dir={files / 'pairs'}", f"--output={files / 'pairs'}"]
    run(monkeypatch, *across)
    sits = rated_pairs.read_folder(files / "pairs", "validation", need_scores=False)["sits"]
    assert np.sum(sits.methods == "c2i_intrasim") == IMAGES * 4
    assert np.sum(sits.methods == "c2i_original") == IMAGES * 5
    # Sampling again would lose the ratings.
    with pytest.raises(SystemExit, match="has ratings"):
        within(files, monkeypatch)


def test_released_pairs_follow_the_scheme(real_data):
    """Captions of one image form cycles, and those of two images have the same place in both."""
    rated = rated_pairs.read_folder(real_data / "cxc", "test")
    groups = samplers.read_groups(real_data / "cxc", "test")
    methods = rated["sts"].methods
    located = samplers.locate(rated["sts"], groups)
    cycles, joined = (located[methods == each] for each in ("c2c_cocaption", "c2c_isim"))
    assert [sorted(side) == list(range(25_000)) for side in cycles.T.tolist()] == [True] * 2
    assert (groups.owners[cycles[:, 0]] == groups.owners[cycles[:, 1]]).all()
    assert (groups.places[joined[:, 0]] == groups.places[joined[:, 1]]).all()
    images = samplers.locate(rated["sis"], groups)
    assert len(np.unique(np.sort(images, axis=1), axis=0)) == 43_856
