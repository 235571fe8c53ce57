"""Stand-ins for the output of img2dataset in its three formats (version 1.47)."""

import io
import json
import math
import tarfile

import PIL.Image
import pyarrow
import pyarrow.parquet

_TEXTS = ("caption", "url", "key", "status", "error_message", "exif", "sha256")
_SIZES = ("width", "height", "original_width", "original_height")
_SCHEMA = pyarrow.schema(
    [(name, pyarrow.string()) for name in _TEXTS] + [(name, pyarrow.int32()) for name in _SIZES]
)
NOT_FOUND = "HTTP Error 404: Not Found"


def jpeg(width):
    """A gray JPEG, four pixels high."""
    file = io.BytesIO()
    PIL.Image.new("RGB", (width, 4), (9 * width % 256, 80, 80)).save(file, "JPEG")
    return file.getvalue()


def write(folder, rows, output_format, per_shard=3):
    """Writes the output of the tool for a url list.

    Args:
      folder: the output folder.
      rows: url, caption and encoded image, None for a dead link.
      output_format: "webdataset", "parquet" or "files".
      per_shard: rows per shard. Unless this is a power of ten, keys are not row numbers.
    """
    folder.mkdir(parents=True, exist_ok=True)
    digits = math.ceil(math.log10(per_shard))
    for shard in range(math.ceil(len(rows) / per_shard)):
        samples = [
            _sample(f"{shard * 10**digits + place:0{5 + digits}d}", *row)
            for place, row in enumerate(rows[shard * per_shard : (shard + 1) * per_shard])
        ]
        _WRITERS[output_format](folder / f"{shard:05d}", samples)
        successes = sum(image is not None for _, image in samples)
        stats = {"count": len(samples), "successes": successes, "start_time": 1.0}
        (folder / f"{shard:05d}_stats.json").write_text(json.dumps(stats, indent=4))


def _sample(key, url, caption, image):
    meta = dict.fromkeys(_SCHEMA.names) | {"url": url, "caption": caption, "key": key}
    if image is None:
        return meta | {"status": "failed_to_download", "error_message": NOT_FOUND}, None
    return meta | {"status": "success", "exif": "{}", "width": 4, "height": 4}, image


def _write_table(path, samples, schema=_SCHEMA):
    with pyarrow.parquet.ParquetWriter(path, schema) as writer:
        metas = [meta for meta, _ in samples]
        writer.write_table(pyarrow.Table.from_pylist(metas, schema))


def _write_webdataset(shard, samples):
    with tarfile.open(f"{shard}.tar", "w") as archive:
        for meta, image in samples:
            if image is None:
                continue
            parts = {"jpg": image, "json": json.dumps(meta, indent=4), "txt": meta["caption"]}
            for ending, content in sorted(parts.items()):
                content = content if isinstance(content, bytes) else content.encode()
                member = tarfile.TarInfo(f"{meta['key']}.{ending}")
                member.size = len(content)
                archive.addfile(member, io.BytesIO(content))
    _write_table(f"{shard}.parquet", samples)


def _write_parquet(shard, samples):
    samples = [(meta | {"jpg": image}, image) for meta, image in samples]
    schema = _SCHEMA.append(pyarrow.field("jpg", pyarrow.binary()))
    _write_table(f"{shard}.parquet", samples, schema)


def _write_files(shard, samples):
    shard.mkdir()
    for meta, image in samples:
        if image is not None:
            (shard / f"{meta['key']}.jpg").write_bytes(image)
            (shard / f"{meta['key']}.txt").write_text(meta["caption"], encoding="utf-8")
            (shard / f"{meta['key']}.json").write_text(json.dumps(meta, indent=4))
    _write_table(f"{shard}.parquet", samples)


_WRITERS = {"webdataset": _write_webdataset, "parquet": _write_parquet, "files": _write_files}
