"""Compares a build with two Apache Beam workers with the plain build of the same web records.

    python -m tests.stress.beam_build [--records=20000]

Compares all records one by one, the list of left-out records, the counts and the hashes. Prints one
line of JSON: kept and left-out records and the seconds of both builds.
"""

import argparse
import json
import os
import pathlib
import sys
import tempfile
import time

from data_prep.build import build
from data_prep.conceptual_captions.conceptual_captions_dataset_builder import Builder
from tests.data_prep import web_records

_PER_SHARD = 500


def main() -> None:
    """Builds twice and compares."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=20_000)
    count = parser.parse_args().records
    # Workers that Beam starts import the modules of this process.
    os.environ["PYTHONPATH"] = os.pathsep.join(sys.path)
    with tempfile.TemporaryDirectory() as temporary:
        root = pathlib.Path(temporary)
        (root / "files").mkdir()
        held_out = count // 20
        Builder.EXPECTED = web_records.write(root / "files", count - held_out, held_out, _PER_SHARD)
        found, seconds = {}, {}
        for name, options in {"plain": None, "beam": web_records.TWO_WORKERS}.items():
            folders = {"data_dir": str(root / name), "manual_dir": str(root / "files")}
            started = time.monotonic()
            found[name] = build(
                "conceptual_captions", "images", **folders, beam_pipeline_options=options
            )
            seconds[name] = round(time.monotonic() - started, 1)
        web_records.assert_equal(found["beam"], found["plain"])
        metadata = found["plain"].info.metadata
        counts = {key: dict(metadata[key]) for key in ("kept", "left_out", "split_hashes")}
    print(json.dumps({"records": count, **counts, "seconds": seconds}))


if __name__ == "__main__":
    main()
