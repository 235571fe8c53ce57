"""A saved file names its model and its records, and is not used for others of the same ids."""

import dataclasses

import numpy as np
import pytest

from tests.evals.tiny_split import TinySplit
from xmodal.core.errors import UserError
from xmodal.evals import load_embeddings, make_evaluator, read_options, save_embeddings
from xmodal.evals.scores.arrays import load_scores, save_scores
from xmodal.evals.scores.sources import Candidates, Embeddings, FileOrigin, ScoreMatrix

SPLIT = TinySplit()
IDS = SPLIT.image_ids, SPLIT.caption_ids
TABLE = np.arange(32, dtype=np.float32).reshape(4, 8)
SAVED_ON = {"pets/images/1.0.0 test": "ab", "pets/ratings/1.0.0 test": "unknown"}
ORIGIN = FileOrigin("vse step 12", SAVED_ON)
BEST = {"i2t": (np.tile(SPLIT.caption_ids, (4, 1)), TABLE)}
FILES = {
    "embeddings": Embeddings("file", IDS[0], TABLE, IDS[1], TABLE.reshape(8, 4) @ TABLE, "dot"),
    "matrix": ScoreMatrix("file", *IDS, TABLE),
    "candidates": Candidates("file", *IDS, BEST, "logit"),
}


@pytest.fixture(params=FILES)
def load(request, tmp_path):
    """Saves a file with an origin, and reads it again."""

    def call(origin):
        found = dataclasses.replace(FILES[request.param], origin=origin)
        is_embeddings = request.param == "embeddings"
        (save_embeddings if is_embeddings else save_scores)(tmp_path / "x.npz", found)
        return (load_embeddings if is_embeddings else load_scores)(tmp_path / "x.npz")

    return call


def run(source, hashes):
    section = {"type": "benchmarks", "benchmarks": ["shapes_own"], "bootstrap_samples": 2}
    (options,) = read_options({"shapes": section}).values()
    evaluator = make_evaluator("shapes", options, TinySplit(hashes=hashes), ["image", "text"])
    return evaluator.run(source)


def test_a_file_is_used_for_its_own_records(load):
    found = load(ORIGIN)
    assert found.origin == ORIGIN
    assert found.notes == ["Saved by vse step 12."]
    for hashes in (
        SAVED_ON,
        {"pets/images/1.0.0 test": "unknown"},
        {"pets/ratings/1.0.0 test": "cd"},
        {"pets/images/2.0.0 test": "cd"},
    ):
        assert run(found, hashes)
    with pytest.raises(UserError, match=r"vse step 12 on other records of pets/images/1.0.0 test:"):
        run(found, {"pets/images/1.0.0 test": "cd"})
