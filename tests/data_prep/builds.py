"""Builds of datasets in tests."""

import tensorflow_datasets as tfds


def build(builder_class, folder, config=None, data_dir="tfds", **settings):
    """Builds a config, by default the first, from the files in a folder, and into one below it."""
    builder = builder_class(config=config, data_dir=folder / data_dir, **settings)
    builder.download_and_prepare(
        download_config=tfds.download.DownloadConfig(manual_dir=str(folder))
    )
    return builder
