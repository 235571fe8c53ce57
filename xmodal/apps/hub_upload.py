"""Uploads exported models to the Hugging Face Hub, with a card that the Hub can read."""

import os
import pathlib
from typing import Any

from etils import epath

from xmodal.api.bundles import CARD
from xmodal.apps.analysis.metric_tables import choose_metrics
from xmodal.core.errors import UserError
from xmodal.core.files import read_json
from xmodal.core.hub import hub_errors

_LIBRARIES = {CARD: "xmodal", "open_clip_config.json": "open_clip", "config.json": "transformers"}
_OF_IMAGES = ("image", "image.onnx", "open_clip_config.json", "preprocessor_config.json")


def push_to_hub(folder: str | os.PathLike, repository: str, *, license: str | None = None) -> str:
    """Uploads an exported model, and returns the address of the commit.

    `README.md` is written into the folder: its YAML names the license, the library, tags, the task
    and, of a bundle, the metrics of its run by dataset; a text that it already has is kept. The
    token is that of `hf auth login` or `$HF_TOKEN`.

    Args:
      folder: a bundle, or another folder of `xmodal export`.
      repository: `OWNER/NAME`, which is created if it is missing.
      license: the license by its identifier on the Hub, such as "apache-2.0".
    """
    root, name = pathlib.Path(folder), repository.rpartition("/")[2]
    if not root.is_dir():
        raise UserError(f"{folder} does not exist: name the output of `xmodal export`.")
    library = next((each for file, each in _LIBRARIES.items() if (root / file).exists()), "onnx")
    has_images = any((root / file).exists() for file in _OF_IMAGES)
    tag = "zero-shot-image-classification" if has_images else "sentence-similarity"
    named = {"license": license, "library_name": library, "pipeline_tag": tag, "model_name": name}
    metrics = _list_metrics(root / CARD) if library == "xmodal" else []
    with hub_errors(repository) as hub:
        results = [hub.EvalResult(**each) for each in metrics] or None
        data = hub.ModelCardData(**named, tags=["xmodal"], eval_results=results)
        text, readme = f"# {name}\n\nMade with xmodal.\n", root / "README.md"
        if library == "xmodal":
            text += f'\n```python\nmodel = xmodal.load("hf://{repository}")\n```\n'
        if not readme.exists():
            readme.write_text(text, encoding="utf-8")
        hub.metadata_save(readme, data.to_dict())
        api = hub.HfApi(library_name="xmodal")
        api.create_repo(repository, exist_ok=True)
        return api.upload_folder(repo_id=repository, folder_path=root).commit_url


def _list_metrics(card: pathlib.Path) -> list[dict[str, Any]]:
    """The arguments of `EvalResult` for every metric of a bundle that is defined."""
    source, found = read_json(epath.Path(card), "export again.")["source"], list[dict[str, Any]]()
    numbers = {tag: x for tag, x in source.get("metrics", {}).items() if x is not None}
    for tag in choose_metrics({"": numbers}, ["*"], at_least=1) if numbers else ():
        evaluator = tag.partition("/")[0]
        dataset = source.get("datasets", {}).get(evaluator, evaluator)
        data = {"dataset_type": dataset, "dataset_name": dataset, "metric_name": tag}
        metric = {"metric_type": tag.rpartition("/")[2], "metric_value": round(numbers[tag], 4)}
        found.append({"task_type": "retrieval", **data, **metric})
    return found
