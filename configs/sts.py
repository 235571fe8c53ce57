"""Sentence similarity of any text encoder: SemEval 2012 to 2016, the STS benchmark and SICK.

Embeddings of any model, from a file with the arrays `caption_ids` and `caption_embeddings`:

    python -m xmodal.eval_main --config=configs/sts.py --config.data.manual_dir=STS_DIR \\
        --embeddings=FILE.npz --similarity=cosine --output=OUT

A converted text tower, `bow` of word vectors or `sentence_encoder` of a BERT; `use` takes a
SavedModel with `--text=savedmodel:FOLDER` instead of `--config.init_from`:

    python -m xmodal convert --tower=bert --source=FOLDER --output=weights/minilm
    python -m xmodal.eval_main --config=configs/sts.py:sentence_encoder \\
        --config.init_from.towers.text=weights/minilm --config.data.manual_dir=STS_DIR --output=OUT

`--config.evals.sts.final_split=train+validation+test` evaluates SICK on all of its 9,927 pairs, as
MTEB does.
"""

from functools import partial

from ml_collections import ConfigDict

from configs import base, baselines


def get_config(argument: str = "") -> ConfigDict:
    """Takes the kind of text tower, or nothing for a file of embeddings."""
    config = base.base("sts")
    config.data = base.dataset("semeval_sts", "pairs")
    config.data.image = None
    # Within a run, it names its dataset in `data`.
    config.evals = {"sts": {"type": "embedding_similarity", "split": "test"}}
    config.best_checkpoint.metric = "sts/avg2016/pearson"
    towers = {name: partial(baselines.use_text_tower, name, 256) for name in baselines.TEXT}
    return base.choose(config, argument, **towers)
