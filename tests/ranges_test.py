"""Values out of range give a clear error message before any dataset is needed."""

import pytest

TEXT = "quickstart.py:t2t"
BOTH = "quickstart.py"
PIXELS = "cxc_multitask.py:quick"
POOLS = "{'type': 'pools'}"

# Config, override, message.
ROWS = [
    # Root.
    (TEXT, "seed=-1", "config.seed is -1; it must be at least 0."),
    (TEXT, "seed=one", "config.seed is 'one'; it must be an integer."),
    (TEXT, f"seed={2**63}", f"config.seed is {2**63}; it must be less than {2**63}."),
    (TEXT, f"seed={2**70}", f"config.seed is {2**70}; it must be less than {2**63}."),
    (TEXT, "seed=True", "config.seed is True; it must be an integer."),
    (TEXT, "total_steps=0", "config.total_steps is 0; it must be at least 1."),
    (TEXT, "total_steps=5000000000", "config.total_steps is 5000000000; it must be "),
    (TEXT, "total_steps=1e9", "config.total_steps is 1000000000.0; it must be an integer."),
    (TEXT, "batch_size=1", "config.batch_size is 1; it must be at least 2."),
    (TEXT, "batch_size=0", "config.batch_size is 0; it must be at least 2."),
    (TEXT, "batch_size=-4", "config.batch_size is -4; it must be at least 2."),
    (TEXT, "log_every=0", "config.log_every is 0; it must be at least 1."),
    (TEXT, "log_every=-1", "config.log_every is -1; it must be at least 1."),
    (TEXT, "checkpoint.every=-1", "config.checkpoint.every is -1; it must be at least 0."),
    (TEXT, "checkpoint.keep_last=0", "config.checkpoint.keep_last is 0; it must be at least 1."),
    (TEXT, "freeze=['(']", "config.freeze is '(', not a valid regular expression: "),
    (TEXT, "freeze=text/", "it must be a list such as ['a', 'b']; for one entry, write ['text/']."),
    (TEXT, "freeze=[3]", "config.freeze is (3,); it must be a list such as ['a', 'b']."),
    (
        TEXT,
        "l2={'pattern': '*', 'scale': 1}",
        "config.l2.pattern is '*', not a valid regular expression",
    ),
    (
        TEXT,
        "l2={'pattern': '.*', 'scale': -1}",
        "config.l2.scale is -1.0; it must be more than 0",
    ),
    (TEXT, "sharding=[('.*', 'sharded')]", "Unknown name 'sharded' in config.sharding; known: "),
    (TEXT, "sharding=[('.*',)]", "config.sharding is (('.*',),); it must be a list"),
    (TEXT, "init_from.published=['(']", "config.init_from.published is '(', not a valid regular"),
    (TEXT, "sharding=[('[', 'fsdp')]", "config.sharding is '[', not a valid regular expression: "),
    (TEXT, "init_from.run=runs/nowhere", "'runs/nowhere' is not a run of xmodal.main"),
    (
        TEXT,
        "init_from.include=['+']",
        "config.init_from.include is '+', not a valid regular expression",
    ),
    (TEXT, "init_from.towers.text=nowhere", "nowhere"),
    (
        TEXT,
        "best_checkpoint.mode=most",
        "Unknown name 'most' in config.best_checkpoint.mode; known: ",
    ),
    (
        TEXT,
        "best_checkpoint.metric=shape/x",
        "'shape' in config.best_checkpoint.metric='shape/x'; known: ",
    ),
    # Model.
    (TEXT, "model.similarity.temperature=0", "temperature is 0.0; it must be more than 0"),
    (TEXT, "model.similarity.temperature=-1", "temperature is -1.0; it must be more than 0"),
    (TEXT, "model.similarity.temperature=warm", "temperature is 'warm'; it must be a number."),
    (TEXT, "model.similarity.name=['dot']", "in config.model.similarity.name; known: "),
    (
        TEXT,
        "model.text.projection.width=-5",
        "text.projection.width is -5; it must be at least 1",
    ),
    (
        BOTH,
        "model.image.projection.width=128",
        "128-dimensional embeddings and config.model.text 256-dimensional ones, and config.tasks.",
    ),
    (
        BOTH,
        "model.text.projection={'normalize': True}",
        "256-dimensional embeddings and config.model.text 128-dimensional ones, and config.tasks.",
    ),
    (BOTH, "model.image.projection.width=-5", "image.projection.width is -5; it must be at lea"),
    (
        PIXELS,
        "model.image.encoder.width=-1",
        "config.model.image.encoder.width is -1.0; it must be",
    ),
    (PIXELS, "model.image.encoder.drop_connect=1", "drop_connect is 1.0; it must be less than 1"),
    (BOTH, "model.image.encoder.channels=(8,0)", "channels"),
    (BOTH, "model.image.encoder.units=(1,)", "both need a number for every stage"),
    (BOTH, "model.image.encoder.dtype=half", "Unknown name 'half' in config.model.image.encoder."),
    (
        BOTH,
        "model.image.encoder.remat=2",
        "config.model.image.encoder.remat is 2; it must be True or ",
    ),
    (TEXT, "model.text.encoder.depth=0", "text.encoder.depth is 0; it must be at least 1."),
    (
        TEXT,
        "model.text.encoder.heads=3",
        "config.model has width=128, not a multiple of its heads=3.",
    ),
    (TEXT, "model.text.encoder.dropout=1", "encoder.dropout is 1.0; it must be less than 1."),
    (TEXT, "model.text.encoder.vocab_size=-2", "encoder.vocab_size is -2; it must be at least 1"),
    (TEXT, "model.text.encoder.max_positions=8", "max_positions"),
    (TEXT, "model.text.head.pool=frist", "Unknown name 'frist' in config.model.text.head.pool; "),
    (TEXT, "model.text.head=3", "config.model.text.head is 3; it must be a section."),
    (TEXT, "model.text.head={}", "config.model.text.head lacks 'name'; known: "),
    # Tasks.
    (TEXT, "tasks.t2t.weight=0", "config.tasks.t2t.weight is 0.0; it must be more than 0."),
    (TEXT, "tasks.t2t.weight=-1", "config.tasks.t2t.weight is -1.0; it must be more than 0."),
    (TEXT, "tasks.t2t.weight=heavy", "config.tasks.t2t.weight is 'heavy'; it must be a number"),
    (
        TEXT,
        "tasks.t2t.weight={'schedule': 'linear', 'from': 1, 'to': -1, 'end': 10}",
        "config.tasks.t2t.weight is -1.0; it must be at least 0.",
    ),
    (
        TEXT,
        "tasks.t2t.weight={'schedule': 'piecewise', 'values': {0: 'low', 5: 'high'}}",
        "config.tasks.t2t.weight.values is 'low'; it must be a number",
    ),
    (TEXT, "tasks.t2t.negatives=images", "Unknown name 'images' in config.tasks.t2t.negatives; "),
    (TEXT, "tasks.t2t.similarity={'name': 'cos'}", "Unknown name 'cos' in config.tasks.t2t.simil"),
    (
        TEXT,
        "tasks.t2t.loss.options.form=3",
        "Unknown name '3' in config.tasks.t2t.loss.options.form; ",
    ),
    (TEXT, "tasks.t2t.loss.options.chunk_size=0", "chunk_size is 0; it must be at least 1."),
    (TEXT, "tasks.t2t.loss.options.chunk_size=ten", "chunk_size is 'ten'; it must be an integer"),
    (
        TEXT,
        "tasks.t2t.loss.options.chunk_size={'schedule': 'linear', 'from': 1, 'to': 9, 'end': 9}",
        "config.tasks.t2t.loss.options.chunk_size is a schedule of the step; this option must be",
    ),
    (
        TEXT,
        "tasks.t2t.loss={'name': 'triplet', 'options': {'margin': -3}}",
        "config.tasks.t2t.loss.options.margin is -3.0; it must be at least 0.",
    ),
    (
        TEXT,
        "tasks.t2t.loss={'name': 'triplet', 'options': {'margin': 'wide'}}",
        "config.tasks.t2t.loss.options.margin is 'wide'; it must be a number.",
    ),
    (
        TEXT,
        "tasks.t2t.loss={'name': 'triplet', 'options': {'margin': "
        "{'schedule': 'linear', 'from': 0.1, 'to': -3, 'end': 9}}}",
        "config.tasks.t2t.loss.options.margin is -3.0; it must be at least 0.",
    ),
    (
        TEXT,
        "tasks.t2t.loss={'name': 'triplet', 'options': {'mining': ['all']}}",
        "config.tasks.t2t.loss.options.mining is ['all']; it must be a string",
    ),
    (
        TEXT,
        "tasks.t2t.loss={'name': 'soft_contrastive', 'options': {'kl_weight': -1}}",
        "config.tasks.t2t.loss.options.kl_weight is -1.0; it must be at least 0.",
    ),
    (
        TEXT,
        "tasks.t2t.loss={'name': 'relation_bce', 'options': {'pos_weight': [1, -1]}}",
        "config.tasks.t2t.loss.options.pos_weight is -1; it must be at least 0.",
    ),
    (
        TEXT,
        "tasks.t2t.loss={'name': 'relation_bce', 'options': {'select': [0.5]}}",
        "config.tasks.t2t.loss.options.select is [0.5]; it must be a list",
    ),
    (
        TEXT,
        "tasks.t2t.loss={'name': 'relation_bce', 'module': {'relations': 0}}",
        "config.tasks.t2t.loss.module.relations is 0; it must be at least 1.",
    ),
    # Optimizer.
    (TEXT, "optimizer.learning_rate=-1", "learning_rate is -1.0; it must be more than 0."),
    (TEXT, "optimizer.learning_rate=0", "learning_rate is 0.0; it must be more than 0."),
    (TEXT, "optimizer.learning_rate=nan", "learning_rate is 'nan'; it must be a number."),
    (TEXT, "optimizer.learning_rate=1e999", "learning_rate is inf; it must be a finite number."),
    (TEXT, "optimizer.clip_norm=0", "config.optimizer.clip_norm is 0.0; it must be more than 0"),
    (
        TEXT,
        "optimizer.options.b1=1",
        "config.optimizer.options.b1 is 1.0; it must be less than 1",
    ),
    (TEXT, "optimizer.options.eps=-1", "optimizer.options.eps is -1.0; it must be at least 0."),
    (TEXT, "optimizer.options.amsgrad=3", "options.amsgrad is 3; it must be True or False."),
    (TEXT, "optimizer.schedule.warmup_steps=-1", "warmup_steps is -1; it must be at least 0."),
    (TEXT, "optimizer.learning_rate=3 epochs", "learning_rate is '3 epochs'; it must be a number."),
    (TEXT, "optimizer.clip_norm=1 epoch", "config.optimizer.clip_norm is '1 epoch'; it must be"),
    (TEXT, "seed=3 epochs", "config.seed is '3 epochs'; it must be an integer."),
    (TEXT, "optimizer.schedule.warmup_steps=400", "warmup_steps=400 leaves nothing of"),
    (TEXT, "optimizer.schedule.end_fraction=2", "end_fraction is 2.0; it must be at most 1."),
    (
        TEXT,
        "optimizer.schedule=cosine",
        "config.optimizer.schedule is 'cosine'; it must be a sec",
    ),
    (TEXT, "optimizer.skip_outliers.decay=1", "skip_outliers.decay is 1.0; it must be less than"),
    (
        TEXT,
        "optimizer.weight_decay={'rate': 0}",
        "weight_decay.rate is 0.0; it must be more than",
    ),
    (
        TEXT,
        "optimizer.weight_decay={'rate': 0.1, 'pattern': '('}",
        "config.optimizer.weight_decay.pattern is '(', not a valid regular expression: ",
    ),
    (
        TEXT,
        "optimizer.groups={'text': {'pattern': 'text/', 'rate': -1}}",
        "config.optimizer.groups.text.rate is -1.0; it must be more than 0.",
    ),
    (
        TEXT,
        "optimizer.groups={'text': {'pattern': '('}}",
        "config.optimizer.groups.text.pattern is '(', not a valid regular expression: ",
    ),
    (
        TEXT,
        "optimizer.plateau={'metric': 'shapes/x', 'mode': 'max', 'factor': 2}",
        "config.optimizer.plateau.factor is 2.0; it must be less than 1.",
    ),
    # Data.
    (TEXT, "data.dataset=cocoa", "Unknown name 'cocoa' in config.data.dataset; known: "),
    (TEXT, "data.captions_per_image=0", "captions_per_image is 0; it must be at least 1."),
    (TEXT, "data.examples=pair", "Unknown name 'pair' in config.data.examples; known: "),
    (TEXT, "data.prefetch=-1", "config.data.prefetch is -1; it must be at least 0."),
    (TEXT, "data.labels=relations", "config.data.labels is 'relations'; it must be a list such"),
    (TEXT, "data.text.max_length=0", "config.data.text.max_length is 0; it must be at least 1."),
    (TEXT, "data.text.vocabulary_size=0", "vocabulary_size is 0; it must be at least 1."),
    (
        TEXT,
        "data.text.tokenizer=syllables",
        "Unknown name 'syllables' in config.data.text.tokenizer; known: ",
    ),
    (TEXT, "data.text.vocabulary=nowhere.txt", "nowhere.txt"),
    (TEXT, "data.text.augment={'delete': 2}", "text.augment.delete is 2.0; it must be at most 1"),
    (BOTH, "data.image.size=-1", "config.data.image.size is -1; it must be at least 0."),
    (
        BOTH,
        "data.image.eval_crop=0",
        "config.data.image.eval_crop is 0.0; it must be more than 0",
    ),
    (BOTH, "data.image.eval_crop=1.5", "data.image.eval_crop is 1.5; it must be at most 1."),
    (BOTH, "data.image.augment.area=[0.9, 0.5]", "image.augment.area is (0.9, 0.5); the lower end"),
    (
        BOTH,
        "data.image.augment.area=[0.9]",
        "config.data.image.augment.area is (0.9,); it must be",
    ),
    (BOTH, "data.image.augment.area=[0, 1]", "augment.area is 0; it must be more than 0."),
    (BOTH, "data.image.augment.min_area=-1", "augment.min_area is -1.0; it must be at least 0."),
    # Evaluators.
    (TEXT, "evals.shapes.every=-1", "config.evals.shapes.every is -1; it must be at least 0."),
    (TEXT, "evals.shapes.batch_size=0", "evals.shapes.batch_size is 0; it must be at least 1."),
    (TEXT, "evals.shapes.bootstrap_samples=0", "bootstrap_samples is 0; it must be at least 1."),
    (TEXT, "evals.shapes.seed=-1", "config.evals.shapes.seed is -1; it must be at least 0."),
    (TEXT, "evals.shapes=3", "config.evals.shapes is 3; it must be a section with a type"),
    (TEXT, "evals.shapes.boards=[3]", "config.evals.shapes.boards is [3]; it must be a list"),
    (TEXT, "evals.shapes.boards=['shapez']", "Unknown name 'shapez' in config.evals.shapes.boards"),
    (
        TEXT,
        "evals.shapes.similarity={'name': 'cosin'}",
        "Unknown name 'cosin' in config.evals.shapes.similarity.name; known: ",
    ),
    (
        TEXT,
        "evals.shapes.data={'datset': 'x'}",
        "Unknown key(s) ['datset'] in config.evals.shapes.data; known: ",
    ),
    (
        TEXT,
        "evals.shapes.data={'captions_per_image': 0}",
        "config.evals.shapes.data.captions_per_image is 0; it must be at least 1.",
    ),
    (
        TEXT,
        "evals.shapes.reranker={'name': 'selective_refinement', 'strength': 'a', 'gap': 0.1}",
        "config.evals.shapes.reranker.strength is 'a'; it must be a number.",
    ),
    (
        TEXT,
        "evals.shapes.reranker={'name': 'selective_refinement', 'gap': 0.1}",
        "config.evals.shapes.reranker lacks ['strength']; known: ",
    ),
    (
        TEXT,
        f"evals.shapes={POOLS[:-1]}, 'size': 0}}",
        "config.evals.shapes.size is 0; it must be",
    ),
    (
        TEXT,
        f"evals.shapes={POOLS[:-1]}, 'directions': ['i2i']}}",
        "Unknown name 'i2i' in config.evals.shapes.directions; known: ",
    ),
    (TEXT, f"evals.shapes={POOLS[:-1]}, 'directions': []}}", "config.evals.shapes.directions"),
    (TEXT, "evals={}", "config.best_checkpoint.metric"),
]


@pytest.mark.parametrize(("config", "override", "message"), ROWS, ids=[row[1] for row in ROWS])
def test_a_value_out_of_range_is_one_sentence(command, tmp_path, config, override, message):
    code, said = command(
        f"--config=configs/{config}",
        # A dataset that does not exist; looking for it would end the command first.
        "--config.data.dataset=coco_captions",
        "--config.best_checkpoint.metric=",
        f"--config.data.data_dir={tmp_path / 'none'}",
        f"--config.{override}",
        f"--workdir={tmp_path / 'run'}",
    )
    assert code == 1
    assert message in said
    assert "Traceback" not in said
    assert not list(tmp_path.iterdir())


def test_the_values_of_the_experiment_itself_pass(command, tmp_path):
    code, said = command(
        f"--config=configs/{TEXT}",
        "--config.data.dataset=coco_captions",
        "--config.best_checkpoint.metric=",
        f"--config.data.data_dir={tmp_path / 'none'}",
    )
    assert code == 1
    assert "python -m data_prep.build --dataset=coco_captions" in said
