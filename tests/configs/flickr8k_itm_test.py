"""The models of flickr8k_itm.py have their papers' parts and share everything else."""

import pytest

from configs import cvse, cxc, flickr8k_itm, pcme, pvse, scan, sgraf, vse0, vse_infinity, vsepp

# Model -> its paper's config.
PAPERS = {
    "vse0": (vse0, ""),
    "vsepp": (vsepp, ""),
    "pvse_k1": (pvse, "k1"),
    "pvse_k1_semi_hard": (pvse, "k1_semi_hard"),
    "pvse_k1_none": (pvse, "k1_none"),
    "pvse_k2": (pvse, ""),
    "pcme": (pcme, ""),
    "vse_infinity": (vse_infinity, "grids_gru"),
}
CELL_PAPERS = {
    "vsepp_cells": (vsepp, ""),
    "scan": (scan, "t2i_mean"),
    "saf": (sgraf, "saf"),
    "sgr": (sgraf, "sgr"),
    "cvse": (cvse, ""),
}
# Sections in which the models differ, in addition to clipping.
OWN = {"name", "model", "tasks"}
LATE = {"schedule": "piecewise", "values": {"0": 1.0, "1 epochs": 0.0}}


def make(model):
    return flickr8k_itm.get_config(model).to_dict()


def without_widths(section):
    """Keywords of a head or a projection, or None."""
    widths = ("width", "concept_width")
    return section and {key: value for key, value in section.items() if key not in widths}


@pytest.mark.parametrize("model", flickr8k_itm.MODELS)
def test_the_protocol_is_one(model):
    own, other = make(model), make("vsepp")
    assert own["name"] == f"flickr8k_{model}"
    own["optimizer"]["clip_norm"] = other["optimizer"]["clip_norm"]
    assert {key: own[key] for key in set(own) - OWN} == {key: other[key] for key in set(own) - OWN}
    assert own["model"]["image"]["encoder"] == other["model"]["image"]["encoder"]


@pytest.mark.parametrize("model", PAPERS)
def test_heads_and_loss_are_the_papers_after_an_epoch_without_mining(model):
    module, argument = PAPERS[model]
    own, paper = make(model), module.get_config(argument).to_dict()
    for side in ("image", "text"):
        for part in ("head", "projection"):
            found, wanted = (each["model"][side][part] for each in (own, paper))
            assert without_widths(found) == without_widths(wanted)
    assert own["model"]["similarity"] == paper["model"]["similarity"]
    assert own["optimizer"]["clip_norm"] == paper["optimizer"]["clip_norm"]
    wanted = paper["tasks"]["i2t"]["loss"]["options"]
    if wanted.get("mining") in ("hardest", "semi_hard"):
        wanted["all_share"] = LATE
    if model == "vse_infinity":
        # There, the loss waits for the CNN to be trained.
        paper["tasks"]["i2t"]["weight"] = 1.0
    assert own["tasks"] == paper["tasks"]


@pytest.mark.parametrize("model", CELL_PAPERS)
def test_models_of_cells_differ_in_what_reads_the_images(model):
    own, other = make(model), make("vsepp")
    module, argument = CELL_PAPERS[model]
    paper = module.get_config(argument).to_dict()
    assert own["name"] == f"flickr8k_{model}"
    assert own["freeze"] == ("image/encoder/",)
    assert own["frozen_features"]["sides"] == ("image",)
    is_reduced = model in flickr8k_itm.PAIRWISE
    reads = {"freeze", "frozen_features", "init_from", "data", "evals"}
    shared = set(own) - OWN - reads - {"optimizer"}
    shared -= {"total_steps", "batch_size"} if is_reduced else set()
    assert {key: own[key] for key in shared} == {key: other[key] for key in shared}
    different = {key for key in own["data"] if own["data"][key] != other["data"][key]}
    assert different <= {"config", "image", "label_captions"}
    for side in ("image", "text"):
        found, wanted = (each["model"][side]["head"] for each in (own, paper))
        assert without_widths(found) == without_widths(wanted)
    similarities = (without_widths(each["model"]["similarity"]) for each in (own, paper))
    assert len({str(each) for each in similarities}) == 1
    for task in (each for each in own["tasks"].values() if "mining" in each["loss"]["options"]):
        options = task["loss"]["options"]
        assert options["mining"] == ("all" if is_reduced else "hardest")
        assert is_reduced or options["all_share"] == LATE


@pytest.mark.parametrize("suffix", ["", "_cells"])
def test_softmax_differs_from_vsepp_in_its_loss(suffix):
    softmax, vsepp_ = make(f"softmax{suffix}"), make(f"vsepp{suffix}")
    assert softmax["model"].pop("similarity")["temperature"] == 0.07
    assert vsepp_["model"].pop("similarity") == {"name": "cosine"}
    assert softmax["model"] == vsepp_["model"]
    assert softmax.pop("tasks") == {"i2t": cxc.image_text()}
    # Of the optimizer, the clipping.
    assert {key for key in softmax if softmax[key] != vsepp_[key]} <= {"name", "optimizer"}
