"""Ways in which files on disk may be broken, one per case, drawn from a seed."""

import gzip
import io
import json
import struct
import zipfile
import zlib
from collections.abc import Callable
from typing import Any

import numpy as np
import PIL.Image

from tests.data_prep.fuzzing.contents import photograph

TEXTS = (".txt", ".csv", ".tsv", ".json", ".jsonl", ".token", ".csv.gz")
_JSON = (".json", ".jsonl")
_ZIP = (".zip", ".npz")

Members = list[tuple[str, bytes]]


class NotApplicableError(Exception):
    """None of the files of a stand-in can be broken in this way."""


def mutate(folder: Any, kind: str, rng: np.random.Generator) -> str:
    """Breaks one file.

    Args:
      folder: files of a stand-in.
      kind: a key of `BYTES`, `LINES`, `VALUES`, `MEMBERS` or `FILES`.
      rng: draws the file and the place.

    Returns:
      The file's name.

    Raises:
      NotApplicableError: there is no such file.
    """
    endings = _ENDINGS.get(kind, ("",))
    files = [
        path
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name.endswith(endings) and not path.name.endswith("_stats.json")
    ]
    if not files:
        raise NotApplicableError
    path = files[rng.integers(len(files))]
    if kind in FILES:
        FILES[kind](path)
        return path.name
    if kind in MEMBERS:
        _rewritten(path, kind, rng)
        return path.name
    content = path.read_bytes()
    packed = kind in LINES and content[:2] == b"\x1f\x8b"
    if packed:
        content = gzip.decompress(content)
    content = (BYTES | LINES | VALUES)[kind](content, rng)
    path.write_bytes(gzip.compress(content, mtime=0) if packed else content)
    return path.name


def _place(content: bytes, rng: np.random.Generator) -> int:
    return int(rng.integers(max(len(content), 1)))


def _bit(content: bytes, rng: np.random.Generator) -> bytes:
    if not content:
        return b"\x01"
    place = _place(content, rng)
    return (
        content[:place] + bytes([content[place] ^ 1 << int(rng.integers(8))]) + content[place + 1 :]
    )


def _zeroed(content: bytes, rng: np.random.Generator) -> bytes:
    place = _place(content, rng)
    length = min(64, len(content) - place)
    return content[:place] + bytes(length) + content[place + length :]


def _block_gone(content: bytes, rng: np.random.Generator) -> bytes:
    place = _place(content, rng)
    return content[:place] + content[place + 1 + int(rng.integers(200)) :]


def _block_twice(content: bytes, rng: np.random.Generator) -> bytes:
    place = _place(content, rng)
    return content[: place + 1 + int(rng.integers(200))] + content[place:]


# Changes to the bytes of any file, compressed or not.
BYTES: dict[str, Callable[[bytes, np.random.Generator], bytes]] = {
    "cut": lambda content, rng: content[: _place(content, rng)],
    "cut_at_the_end": lambda content, rng: content[: -1 - int(rng.integers(30))],
    "bit_flipped": _bit,
    "zeroed": _zeroed,
    "block_gone": _block_gone,
    "block_twice": _block_twice,
    "noise_behind": lambda content, rng: content + rng.bytes(100),
    "noise_before": lambda content, rng: rng.bytes(10) + content,
    "all_noise": lambda content, rng: rng.bytes(len(content)),
}


def _insert(inserted: bytes) -> Callable[[bytes, np.random.Generator], bytes]:
    def insert(content: bytes, rng: np.random.Generator) -> bytes:
        place = _place(content, rng)
        return content[:place] + inserted + content[place:]

    return insert


def _line_twice(content: bytes, rng: np.random.Generator) -> bytes:
    lines = content.splitlines(keepends=True)
    place = int(rng.integers(len(lines)))
    return b"".join([*lines[: place + 1], *lines[place:]])


def _line_gone(content: bytes, rng: np.random.Generator) -> bytes:
    lines = content.splitlines(keepends=True)
    del lines[int(rng.integers(len(lines)))]
    return b"".join(lines)


def _lines_joined(content: bytes, rng: np.random.Generator) -> bytes:
    ends = [n for n, byte in enumerate(content) if byte == 10]
    if not ends:
        return content + b" "
    place = ends[int(rng.integers(len(ends)))]
    return content[:place] + content[place + 1 :]


def _field(value: bytes) -> Callable[[bytes, np.random.Generator], bytes]:
    """Replaces one field of one line."""

    def change(content: bytes, rng: np.random.Generator) -> bytes:
        lines = content.split(b"\n")
        separator = max(b"\t,|#", key=lambda byte: content.count(byte))
        place = int(rng.integers(max(len(lines) - 1, 1)))
        fields = lines[place].split(bytes([separator]))
        fields[int(rng.integers(len(fields)))] = value
        lines[place] = bytes([separator]).join(fields)
        return b"\n".join(lines)

    return change


def _columns(content: bytes) -> tuple[bytes, list[list[bytes]]]:
    """The separator, and the fields of every line."""
    separator = bytes([max(b"\t,|", key=lambda byte: content.count(byte))])
    return separator, [line.split(separator) for line in content.removesuffix(b"\n").split(b"\n")]


def _joined(separator: bytes, rows: list[list[bytes]]) -> bytes:
    return b"".join(separator.join(row) + b"\n" for row in rows)


def _column_gone(content: bytes, rng: np.random.Generator) -> bytes:
    separator, rows = _columns(content)
    place = int(rng.integers(len(rows[0])))
    return _joined(separator, [row[:place] + row[place + 1 :] for row in rows])


def _column_renamed(content: bytes, rng: np.random.Generator) -> bytes:
    separator, rows = _columns(content)
    rows[0][int(rng.integers(len(rows[0])))] = b"renamed"
    return _joined(separator, rows)


def _field_of_another_line(content: bytes, rng: np.random.Generator) -> bytes:
    """Copies a field of another line, so that an id or a caption appears twice."""
    separator, rows = _columns(content)
    first, second = rng.integers(len(rows), size=2)
    place = int(rng.integers(min(len(rows[first]), len(rows[second]))))
    rows[second][place] = rows[first][place]
    return _joined(separator, rows)


# Changes to the text of files with lines; compressed files are compressed again.
LINES: dict[str, Callable[[bytes, np.random.Generator], bytes]] = {
    "not_utf8": _insert(b"\xff\xfe\xc3"),
    "nul": _insert(b"\0"),
    "quote": _insert(b'"'),
    "right_to_left": _insert("\N{RIGHT-TO-LEFT OVERRIDE}\N{ARABIC LETTER SHEEN}".encode()),
    "encoded_surrogate": _insert(b"\xed\xa0\x80"),
    "line_break": _insert(b"\n"),
    "line_twice": _line_twice,
    "line_gone": _line_gone,
    "lines_joined": _lines_joined,
    "field_empty": _field(b""),
    "field_huge": _field(b"99999999999999999999"),
    "field_negative": _field(b"-7"),
    "field_nan": _field(b"nan"),
    "field_word": _field(b"word"),
    "byte_order_mark": lambda content, rng: b"\xef\xbb\xbf" + content,
    "utf16": lambda content, rng: content.decode(errors="replace").encode("utf-16"),
    "latin1": lambda content, rng: content.decode().encode("latin1", "replace"),
    "carriage_returns": lambda content, rng: content.replace(b"\n", b"\r\n"),
    "column_gone": _column_gone,
    "column_renamed": _column_renamed,
    "field_of_another_line": _field_of_another_line,
    "header_only": lambda content, rng: content.split(b"\n")[0] + b"\n",
}

ODD = (None, [], {}, "", "word", -1, 2**40, 1.5, True, [None], {"a": 1}, "\ud800", 10**400)


def _json_value(content: bytes, rng: np.random.Generator) -> bytes:
    """Replaces a value anywhere in the first JSON line by something odd."""
    lines = content.split(b"\n")
    place = int(rng.integers(max(len(lines) - 1, 1)))
    holder = [json.loads(lines[place])]
    parent, key = holder, 0
    while isinstance(parent[key], list | dict) and parent[key] and rng.random() < 0.8:
        parent = parent[key]
        keys = list(range(len(parent))) if isinstance(parent, list) else list(parent)
        key = keys[int(rng.integers(len(keys)))]
    parent[key] = ODD[int(rng.integers(len(ODD)))]
    lines[place] = json.dumps(holder[0]).encode()
    return b"\n".join(lines)


def _json_gone(content: bytes, rng: np.random.Generator) -> bytes:
    """Removes a key or an item anywhere."""
    lines = content.split(b"\n")
    place = int(rng.integers(max(len(lines) - 1, 1)))
    value = parent = json.loads(lines[place])
    while True:
        keys = list(range(len(parent))) if isinstance(parent, list) else list(parent)
        if not keys:
            break
        key = keys[int(rng.integers(len(keys)))]
        if not isinstance(parent[key], list | dict) or rng.random() < 0.2:
            del parent[key]
            break
        parent = parent[key]
    lines[place] = json.dumps(value).encode()
    return b"\n".join(lines)


# Changes to the values of JSON files.
VALUES: dict[str, Callable[[bytes, np.random.Generator], bytes]] = {
    "value_odd": _json_value,
    "value_odd_too": _json_value,
    "value_gone": _json_gone,
    "nested_deeply": lambda content, rng: b"[" * 100_000 + content,
}


def _member_gone(members: Members, rng: np.random.Generator) -> Members:
    place = int(rng.integers(len(members)))
    return members[:place] + members[place + 1 :]


def _member_elsewhere(members: Members, rng: np.random.Generator) -> Members:
    place = int(rng.integers(len(members)))
    name, content = members[place]
    return [*members[:place], (f"../../{name}.bak", content), *members[place + 1 :]]


def _member_of_another(members: Members, rng: np.random.Generator) -> Members:
    place = int(rng.integers(len(members)))
    return [*members[:place], (members[place][0], b"no content"), *members[place + 1 :]]


# Changes to the members of zip archives; the archives themselves stay valid.
MEMBERS: dict[str, Callable[[Members, np.random.Generator], Members]] = {
    "member_gone": _member_gone,
    "member_elsewhere": _member_elsewhere,
    "member_of_another": _member_of_another,
    "members_of_macos": lambda members, rng: [
        *members,
        *((f"__MACOSX/{name}", b"no content") for name, _ in members),
    ],
    "no_members": lambda members, rng: [],
}


def _rewritten(path: Any, kind: str, rng: np.random.Generator) -> None:
    with zipfile.ZipFile(path) as archive:
        members = [(name, archive.read(name)) for name in archive.namelist()]
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in MEMBERS[kind](members, rng):
            archive.writestr(name, content)


def _a_folder_instead(path: Any) -> None:
    path.unlink()
    path.mkdir()


# Changes to the file itself.
FILES: dict[str, Callable[[Any], None]] = {
    "emptied": lambda path: path.write_bytes(b""),
    "gone": lambda path: path.unlink(),
    "a_folder_instead": _a_folder_instead,
    "a_page_instead": lambda path: path.write_text("<html>404 Not Found</html>\n"),
}


_ENDINGS = {
    kind: endings
    for kinds, endings in ((LINES, TEXTS), (VALUES, _JSON), (MEMBERS, _ZIP))
    for kind in kinds
}


def _encoded(image: PIL.Image.Image, format_: str) -> bytes:
    file = io.BytesIO()
    image.save(file, format_)
    return file.getvalue()


def _sound() -> PIL.Image.Image:
    return PIL.Image.open(io.BytesIO(photograph(99)))


def _png_of_size(side: int) -> bytes:
    def chunk(name: bytes, data: bytes) -> bytes:
        return (
            struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))
        )

    header = struct.pack(">IIBBBBB", side, side, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IEND", b"")


# One image of a dataset -> whether it can still be used, converted if necessary.
IMAGES: dict[str, tuple[Callable[[], bytes], bool]] = {
    "no_bytes": (lambda: b"", False),
    "no_image": (lambda: b"<html>404 Not Found</html>", False),
    # Pillow still decodes this one; the training decoder does not.
    "without_its_end": (lambda: photograph(124)[:-2], False),
    "half": (lambda: photograph(99)[: len(photograph(99)) // 2], False),
    "header_only": (lambda: photograph(99)[:20], False),
    "cmyk": (lambda: _encoded(_sound().convert("CMYK"), "JPEG"), True),
    "grey": (lambda: _encoded(_sound().convert("L"), "JPEG"), True),
    "sixteen_bit": (
        lambda: _encoded(PIL.Image.fromarray(np.full((9, 9), 40_000, np.uint16)), "PNG"),
        True,
    ),
    "palette": (lambda: _encoded(_sound().convert("P"), "PNG"), True),
    "transparent": (lambda: _encoded(_sound().convert("RGBA"), "PNG"), True),
    "gif": (lambda: _encoded(_sound(), "GIF"), True),
    "webp": (lambda: _encoded(_sound(), "WEBP"), True),
    "huge": (lambda: _png_of_size(60_000), False),
    "empty_png": (lambda: _png_of_size(20), False),
}
