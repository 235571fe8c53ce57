"""The command lines of the golden record.

A command line begins with the name of a command. `{out}` is the folder of the case, `{files}` that
of hand-written files, see `inputs`, `{data}` that of prepared datasets, and `{NAME}` the folder of
another case, which then runs first.
"""

import re
import string

CommandLine = tuple[str, ...]
TINY = (
    "--config.total_steps=4", "--config.log_every=1", "--config.batch_size=16",
    "--config.checkpoint.every=2",
    "--config.tensorboard={{'queries': 0, 'pairs': 0, 'projector': 0}}",
)  # fmt: skip
# Case -> name of a config of `configs`, and more arguments.
TRAINED = {
    "quickstart": (
        "quickstart", "--config.optimizer.schedule.warmup_steps=1",
        "--config.tensorboard={{'queries': 1, 'pairs': 100, 'projector': 10}}",
        "--config.evals.shapes.every=2",
    ),
    "quickstart_i2t": ("quickstart:i2t", "--config.optimizer.schedule.warmup_steps=1"),
    "quickstart_t2t": (
        "quickstart:t2t", "--config.optimizer.schedule={{'name': 'constant'}}",
        "--config.accumulation_steps=2",
    ),
    "quickstart_classify": (
        "quickstart:classify_quick", "--config.optimizer.schedule.warmup_steps=1",
    ),
    "quickstart_matching": (
        "quickstart:matching_quick", "--config.optimizer.schedule.warmup_steps=1",
    ),
    "vit": ("vit:quick",),
    "sgraf": ("sgraf:quick",),
    "cvse": ("cvse:quick",),
    "aoq": ("aoq:quick", "--config.data.mined_negatives={mine}/tables"),
    "clip": ("clip:quick", "--config.optimizer.schedule.warmup_steps=1"),
    "clip_sigmoid": ("clip:quick_sigmoid", "--config.optimizer.schedule.warmup_steps=1"),
    "clip_finetune": (
        "clip_finetune:multitask,quick", "--config.optimizer.schedule.warmup_steps=1",
    ),
    "blip": ("blip:quick", "--config.optimizer.schedule.warmup_steps=1"),
    "vilt": ("vilt:quick", "--config.optimizer.schedule.warmup_steps=1"),
    "vinvl": ("vinvl:quick",),
    "sgraf_sgr": ("sgraf:sgr_quick",),
    "scan": ("scan:quick",),
    "cc_pretrain": ("cc_pretrain:quick",),
    "cxc_image_text": ("cxc_image_text:quick",),
    "cxc_text_text": ("cxc_text_text:quick",),
    "cxc_multitask": ("cxc_multitask:quick",),
    "vsepp": ("vsepp:quick",),
    "vsepp_finetuned": ("vsepp:quick_finetuned", "--config.init_from.run={vsepp}/run"),
    "vse0": ("vse0:quick",),
    "order": ("order:quick",),
    "vsrn": ("vsrn:quick",),
    "vse_infinity": ("vse_infinity:quick",),
    "vse_infinity_grids": ("vse_infinity:quick_grids",),
    "vete": ("vete:quick",),
    "vete_gru": ("vete:gru,skt_5,quick",),
    "vete_pin_model": ("vete:pin_model,quick",),
    "vete_pure_text_rnn": ("vete:pure_text_rnn,quick",),
    "cmcm_clue": ("cmcm_clue:quick", "--config.evals.pools.every=2"),
    "cmcm_clue_captions": ("cmcm_clue:quick,captions", "--config.evals.relations.every=2"),
    "cmcm_cite_cosine": ("cmcm_cite:quick,cosine", "--config.evals.pools.every=2"),
    "pcme": ("pcme:quick",),
    "pcme_finetuned": ("pcme:quick_finetuned", "--config.init_from.run={pcme}/run"),
    "pvse": ("pvse:quick", "--config.evals.shapes.every=2"),
    "pvse_shapes_k1": (
        "pvse:shapes_k1", "--config.init_from.run={quickstart}/run",
        "--config.optimizer.schedule.warmup_steps=1",
    ),
    "own_data": (
        "own_data:small", "--config.data.manual_dir={files}/own", "--config.data.data_dir={data}",
        "--config.optimizer.schedule.warmup_steps=1",
    ),
}  # fmt: skip
# Evaluators of these cases; the others have `shapes`.
_COHERENCE = ("pools", "refined", "relations", "not_visible")
EVALUATORS = {
    "quickstart_classify": (
        "shapes",
        "shape",
        "color",
        "shape_knn",
        "color_knn",
        "shape_probe",
        "color_probe",
    ),
    "quickstart_matching": ("shapes", "reranked"),
    "blip": ("shapes", "reranked"),
    "vete": ("shapes", "sts"),
    "vete_gru": ("shapes", "sts"),
    "vete_pin_model": ("sts",),
    "vete_pure_text_rnn": ("sts",),
    "cmcm_clue": _COHERENCE,
    "cmcm_cite_cosine": _COHERENCE,
    "cmcm_clue_captions": ("relations",),
    "pcme": ("shapes", "mean", "ambiguity"),
    "pcme_finetuned": ("shapes", "mean", "ambiguity"),
    "own_data": ("own",),
}
_QUICKSTART = "--config=configs/quickstart.py"
_RUN = "{quickstart}/run"
_LABELED = "--annotations={files}/annotations"
_RESULTS = "--output={out}/results"
_SHAPES = "--dataset=crisscrossed_shapes"
_OF_FILES = ("embeddings={evaluate_files}/embeddings", "scores={evaluate_files}/scores")
_GROUPS = "--groups={files}/annotations"
_SWEEP = (
    "sweep", "--config=configs/vete.py:bow,quick", *TINY, "--config.evals.sts.batch_size=32",
    "--config.evals.shapes.batch_size=32", "--config.evals.sts.every=0",
    "--space=optimizer.learning_rate:log:1e-3:1e-1", "--trials=2",
)  # fmt: skip
OTHERS: dict[str, list[CommandLine]] = {
    "data": [("build", "{data}")],
    "train_errors": [
        ("train",),
        ("train", "--config=configs/quikstart.py"),
        ("train", _QUICKSTART, "--config.optimizer.learning_rte=1"),
        ("train", _QUICKSTART, *TINY, "--workdir={out}/run"),
        ("evaluate",),
        ("evaluate", "--run={out}/none"),
    ],
    "lists": [("train", "--list_configs"), ("train", "--list_towers"), ("reproduce",)],
    "prepare": [
        ("prepare", "--dataset=captioned_images", "--manual_dir={files}/own", "--data_dir={out}")
    ],
    "validate": [("validate", _SHAPES, "--data_dir={data}", "--json")],
    # Without WordNet, its error is recorded.
    "concepts": [
        ("concepts", _SHAPES, "--config=images", "--data_dir={data}", "--count=20",
         "--output={out}/concepts.json")
    ],
    "mine": [
        ("mine", "--model={vsrn}/run", "--dataset=crisscrossed_shapes", "--data_dir={data}",
         "--captions=10", "--images=2", "--output={out}/tables")
    ],
    "changed_run": [("train", _QUICKSTART, "--config.seed=1", f"--workdir={_RUN}")],
    "dry_run": [
        ("train", _QUICKSTART, *TINY, "--dry_run", "--workdir={out}/run",
         "--config.optimizer.schedule.warmup_steps=1", "--config.evals.shapes.batch_size=32")
    ],
    "evaluate_run": [
        ("evaluate", f"--run={_RUN}", "--save_embeddings={out}/model.npz", _RESULTS,
         "--examples=2"),
        ("evaluate", f"--run={_RUN}", "--step=2", "--output={out}/step_2",
         "--compare={quickstart}/run/test"),
    ],
    "evaluate_ensemble": [("evaluate", f"--run={_RUN},{{quickstart_i2t}}/run", _RESULTS)],
    "evaluate_embeddings": [
        ("evaluate", "--embeddings={evaluate_run}/model.npz", _QUICKSTART,
         "--similarity=cosine", _RESULTS, "--name=saved")
    ],
    "evaluate_files": [
        ("evaluate", "--embeddings={files}/tiny.npz", "--similarity=cosine", _LABELED,
         "--output={out}/embeddings"),
        ("evaluate", "--scores={files}/scores.npy", "--ids={files}/tiny.npz", _LABELED,
         "--output={out}/scores", "--compare={out}/embeddings"),
        ("evaluate", "--rankings={files}/ranked.json", _LABELED, "--output={out}/rankings"),
    ],
    "evaluate_sentences": [
        ("evaluate", "--run={vete}/run", "--save_embeddings={out}/model.npz", "--evaluators=sts",
         _RESULTS),
        ("evaluate", "--embeddings={out}/model.npz", "--config=configs/vete.py:quick",
         "--evaluators=sts", "--output={out}/saved"),
    ],
    "evaluate_follow": [("evaluate", f"--run={_RUN}", "--follow", _RESULTS)],
    "evaluate_interpolate": [
        ("evaluate", "--run={vsepp_finetuned}/run", "--interpolate=0,0.5,1", _RESULTS)
    ],
    "compare": [("compare", *_OF_FILES), ("compare", *_OF_FILES, "--latex")],
    "board": [("board", *_OF_FILES, "--output={out}/board")],
    "export": [("export", "--model={cxc_multitask}/run", "--output={out}/bundle")],
    "export_flatten": [("export", f"--model={_RUN}", "--output={out}/bundle")],
    "search": [
        ("search", "build", f"--model={_RUN}", "--images={files}/pictures",
         "--captions={files}/captions.txt", "--output={out}/index"),
        ("search", "query", "--index={out}/index", "a red star"),
        ("search", "query", "--index={out}/index", "--image={files}/pictures/3.png",
         "--find=caption", "--format=json", "--top=3"),
        ("search", "query", "--index={out}/index", "a star", "--format=html",
         "--output={out}/page.html"),
    ],
    "search_bundle": [
        ("search", "build", "--model={export}/bundle", "--images={files}/pictures",
         "--output={out}/index"),
        ("search", "query", "--index={out}/index", "a red star", "--format=json"),
    ],
    "show": [("show", f"--model={_RUN}", "--count=2", "--output={out}/page.html")],
    "sweep": [(*_SWEEP, "--dry_run"), (*_SWEEP, "--workdir={out}/sweep")],
    "annotate": [
        ("annotate", "make", "eccv", _SHAPES, "--data_dir={data}", "--study={out}/round.study",
         "--models={evaluate_run}/model.npz", "--similarity=cosine", "--images=2",
         "--captions=2", "--per_hit=10"),
        ("annotate", "review", "--study={out}/round.study"),
        ("annotate", "aggregate", "--study={out}/round.study", "--output={out}/labels"),
    ],
    "convert": [
        ("convert", "--tower=words", "--source={files}/vectors.txt", "--output={out}/words")
    ],
    "word2vec": [
        ("word2vec", "--config=configs/vete.py:quick", "--output={out}/vectors.txt", "--width=4",
         "--min_count=20", "--epochs=1")
    ],
    "agree": [("agree", "--models={files}/models.json", "--output={out}/agreement")],
    "bradley_terry": [("bradley_terry", "--preferences={files}/preferences.csv")],
    "votes": [("votes", "--answers={files}/answers.csv")],
    "label_quality": [
        ("label_quality", "--labels={files}/annotations/eccv_image_to_caption.json",
         "--truth={files}/truth.json")
    ],
    "caption_relations": [
        ("caption_relations", "--config=configs/cmcm_clue.py:quick,captions",
         "--output={out}/results")
    ],
    "describe": [
        ("describe", _SHAPES, "--data_dir={data}", "--split=validation", "--output={out}/figures"),
        ("describe", "--ratings_dir={files}/annotations", "--output={out}/files"),
    ],
    "sample_pairs": [
        ("sample_pairs", "within", _GROUPS, "--images={files}/tiny.npz", "--neighbors=2",
         "--captions={files}/tiny.npz", "--output={out}/pairs"),
        ("sample_pairs", "across", _GROUPS, "--ratings_dir={files}/annotations",
         "--output={out}/pairs"),
        ("sample_pairs", "check", "{out}/pairs", _GROUPS, "--neighbors=2"),
    ],
}  # fmt: skip
HELPFUL = (
    "train", "evaluate", "prepare", "validate", "concepts", "convert", "export", "search",
    "search build", "search query", "reproduce", "mine", "compare", "board", "sweep", "show",
    "annotate", "annotate make cxc", "annotate make eccv", "annotate make preference",
    "annotate invite", "annotate serve", "annotate review", "annotate aggregate", "word2vec",
    "agree", "bradley_terry", "caption_relations", "describe", "label_quality", "sample_pairs",
    "sample_pairs within", "sample_pairs across", "sample_pairs check", "votes",
)  # fmt: skip


def make_cases() -> dict[str, list[CommandLine]]:
    """Returns the command lines of every case, by its name."""
    cases = {"data": OTHERS["data"]}
    for name, (config, *more) in TRAINED.items():
        file, _, variant = config.partition(":")
        config = f"configs/{file}.py" + (f":{variant}" if variant else "")
        # Batches of an evaluation are padded, and the splits have 25 images.
        evals = EVALUATORS.get(name, ("shapes",))
        small = [f"--config.evals.{each}.batch_size=32" for each in evals]
        argv = ("train", f"--config={config}", *TINY, *small, *more, "--workdir={out}/run")
        cases[name] = [argv]
    # A finished run only prints its report again.
    cases["quickstart"] *= 2
    helped = {f"help/{name.replace(' ', '_')}": [(*name.split(), "--help")] for name in HELPFUL}
    return cases | OTHERS | helped


def needed(argvs: list[CommandLine]) -> set[str]:
    """Returns the names in braces of all command lines, except `out` and `files`."""
    texts = [text for argv in argvs for text in argv]
    found = {name for text in texts for _, name, _, _ in string.Formatter().parse(text) if name}
    if any(re.search("configs/|crisscrossed_shapes", text) for text in texts):
        found.add("data")
    return found - {"out", "files"}
