"""Evaluates a released model that was converted with `xmodal convert --model`.

    python -m xmodal convert --model=pcme --source=pcme_coco.pth --output=weights/pcme
    python -m xmodal.eval_main --config=configs/released.py \\
        --config.init_from.model=weights/pcme --config.data.manual_dir=DIR --output=results/pcme

    python -m xmodal convert --model=cmcm --source=CHECKPOINT \\
        --vocabulary=word2vec_clue.bin --output=weights/cmcm
    python -m xmodal.eval_main --config=configs/released.py:clue \\
        --config.init_from.model=weights/cmcm --config.data.manual_dir=DIR --output=results/cmcm

The model and the preprocessing of its inputs come from the folder. `--config.data.ratings_dir=DIR`
adds the ratings of Crisscrossed Captions, `--config.evals.coco.annotations=DIR` ECCV Caption and
PMRP. `regions` evaluates SCAN, SGRAF, VSRN, CVSE and VSE-infinity on SCAN's released regions.
`clue` and `cite` use the evaluators of `cmcm_clue.py` and `cmcm_cite.py` instead of COCO's: pools,
with and without refinement, and relations. `blip` ranks the best 256 of its towers again, as
BLIP's authors do; `vilt` scores all pairs, in float32 where ViLT's authors use float16, whose
scores tie; `vinvl` does so on VinVL's regions and tags.
"""

from functools import partial

from ml_collections import ConfigDict

from configs import base, cmcm_cite, cmcm_clue, itm


def get_config(argument: str = "") -> ConfigDict:
    """A config without a model, tasks or training, on COCO or another dataset."""
    config = base.base("released")
    config.data = base.dataset("coco_captions")
    config.data.image.size = 0  # The model's.
    # Longer than any COCO caption.
    config.data.text = base.words("nltk", min_count=1, max_length=64)
    config.evals = {"coco": base.benchmarks(batch_size=128)}
    return base.choose(
        config, argument, regions=itm.use_regions, vilt=_score_pairs, vinvl=_score_regions,
        blip=partial(_score_pairs, top=256, first_stage_weight=1.0),
        clue=lambda _: _bare(cmcm_clue.get_config()), cite=lambda _: _bare(cmcm_cite.get_config()),
    )  # fmt: skip


def _bare(config: ConfigDict) -> ConfigDict:
    """The data and the evaluators of an experiment."""
    config.name, config.tasks = f"released_{config.data.dataset}", {}
    config.model.image = config.model.text = None
    config.data.image.size = 0
    return config


def _score_pairs(config: ConfigDict, **options: float) -> ConfigDict:
    config.evals.coco.reranker = {"name": "cross_encoder", **options}
    return config


def _score_regions(config: ConfigDict) -> ConfigDict:
    config.data.update({"dataset": "region_features", "config": "coco_vinvl"})
    config.data.image.update({"max_regions": 70, "tags": True})
    config.data.text = base.wordpiece(max_length=70)
    return _score_pairs(config)
