"""TFDS builders, one folder per dataset, all of which TFDS knows after `import data_prep`.

    import data_prep, tensorflow_datasets as tfds
    ratings = tfds.load("cxc/sts", data_dir=..., split="test")

The commands are the modules `build` and `validate`. `schema` has the features that datasets share;
`linked_captions` and `coherence_pairs` have the shared builders. Other folders are `building`
(checks, counts and hashes of records), `reading` (files) and `sampling` (CxC's sampling scheme).
"""

import importlib
import importlib.abc
import importlib.util
import sys
from typing import Any

# Import paths instead of classes, since builders are slow to import.
BUILDERS = {
    name: f"data_prep.{name}.{name}_dataset_builder:Builder"
    for name in (
        *("captioned_images", "class_folders", "cite", "clue", "coco_captions"),
        *("conceptual_captions", "crisscrossed_shapes", "cxc", "eccv_labels", "flickr30k"),
        *("flickr8k", "pinterest", "region_features", "sbu", "semeval_sts"),
    )
}


def builder_class(name: str) -> Any:
    """Imports the `tfds.core.GeneratorBasedBuilder` subclass of a dataset, a key of `BUILDERS`."""
    module, attribute = BUILDERS[name].split(":")
    return getattr(importlib.import_module(module), attribute)


class _Provider:
    """Gives TFDS the builders, which are imported when they are asked for."""

    def has_dataset(self, name: str) -> bool:
        """Returns whether a dataset is one of ours; TFDS has datasets with the same names."""
        return name in BUILDERS

    def get_builder_cls(self, name: str) -> Any:
        """Returns the builder of a dataset."""
        return builder_class(name)


class _OnImport(importlib.abc.MetaPathFinder):
    """Registers the builders once TFDS is imported, which takes a second and is not always done."""

    def find_spec(self, name: str, path: Any, target: Any = None) -> Any:
        """Returns the spec of TFDS's table of providers, which then gets ours."""
        if name != _TABLE:
            return None
        sys.meta_path.remove(self)
        spec: Any = importlib.util.find_spec(name)
        execute = spec.loader.exec_module

        def execute_and_register(module: Any) -> None:
            execute(module)
            module.add_dataset_builder_provider(_Provider(), index=0)

        spec.loader.exec_module = execute_and_register
        return spec


_TABLE = "tensorflow_datasets.core.registered"
if _TABLE in sys.modules:
    sys.modules[_TABLE].add_dataset_builder_provider(_Provider(), index=0)
else:
    sys.meta_path.insert(0, _OnImport())
