"""Checks a prepared dataset: `python -m data_prep.validate --dataset=flickr8k --data_dir=FOLDER`.

Reads every record again, and prints one table per builder config with their number and their hash,
and those of the build. The exit code is 1 if any differ.
"""

import sys
from typing import Any, NamedTuple

import data_prep
from data_prep.building.record_counts import listing
from data_prep.command_line import make_parser, parse
from xmodal.core import console
from xmodal.core.text_table import align_columns


class FigureRow(NamedTuple):
    """One figure of a prepared dataset: its name, such as `test/records`, and a remark."""

    name: str
    found: int | str
    expected: int | str
    note: str = ""

    @property
    def differs(self) -> bool:
        """Whether the figure is not that of the build."""
        return self.found != self.expected


def check(builder: Any) -> list[FigureRow]:
    """Returns the figures of a prepared dataset, each with the one from its build."""
    # Slow to import, but --help should be fast.
    import tensorflow_datasets as tfds

    from data_prep.building.split_hash import SplitHash

    metadata, features = dict(builder.info.metadata or {}), dict(builder.info.features.items())
    images = [name for name, each in features.items() if isinstance(each, tfds.features.Image)]
    decoders = {name: tfds.decode.SkipDecoding() for name in images} or None
    rows = list[FigureRow]()
    for split, info in builder.info.splits.items():
        split_hash, records = SplitHash(features), 0
        left_out = metadata.get("left_out", {}).get(split, {})
        note = f"left out: {listing(left_out)}" if left_out else ""
        try:
            for example in builder.as_data_source(split, decoders=decoders):
                records += 1
                split_hash.add(example)
        except Exception as error:  # Damaged shards make readers raise all kinds of errors.
            note = f"after {records:,} records: {type(error).__name__}: {error}"
        expected = metadata.get("split_hashes", {}).get(split, "none")
        rows.append(FigureRow(f"{split}/records", records, info.num_examples, note))
        rows.append(FigureRow(f"{split}/hash", split_hash.hexdigest(), expected))
    return rows


@console.readable_errors()
def main() -> None:
    """Checks the dataset that the command line names."""
    args = parse(make_parser("validate", __doc__.split("\n")[0]))
    from data_prep.prepared import open_configs

    cls = data_prep.builder_class(args.dataset)
    data_dir = cls.data_dir_of(args.config, args.data_dir, args.manual_dir)
    differences = 0
    for builder in open_configs(args.dataset, args.config, data_dir):
        cells = [["", "found", "expected", "", ""]]
        for row in check(builder):
            # Hashes have 64 digits.
            figures = [str(each)[:16] for each in (row.found, row.expected)]
            cells.append([row.name, *figures, "differs" if row.differs else "ok", row.note])
            differences += row.differs
        table = align_columns(cells, right={1, 2})
        print(f"{args.dataset}/{builder.builder_config.name} in {builder.data_dir}\n{table}\n")
    print(f"{differences or 'no'} figures differ")
    if differences:
        sys.exit(1)


if __name__ == "__main__":
    main()
