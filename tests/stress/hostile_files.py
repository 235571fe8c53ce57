"""Campaigns against readers of files from elsewhere: mutations of a tiny file of every kind.

    python -m tests.stress.hostile_files [--mutations=300] [--seed=0] [--only=NAME,...]

A file is changed at a few places: bits, bytes, spans that are lost, repeated or replaced by tokens
that attacks use, and cuts. Its reader returns values or raises an error for users, and never
reserves more than 2 GiB of memory. Prints one line of JSON per reader: mutations tried, values
equal to those of the whole file, other values, and errors for users. An error of another kind ends
the campaign with the file that caused it.
"""

import argparse
import json
import pathlib
import random
import resource
import sys
import tempfile
import time

from tests.stress.hostile_readers import READERS, Reader, plain

_TOKENS = (
    *(b"../../x", b"/etc/passwd", b"[" * 2_000, b'{"a":' * 2_000, b"9" * 5_000, b"-1", b"null"),
    *(b"NaN", b"\0", b"\xff\xfe", b"\xff" * 8, b"\x7f" + b"\xff" * 7, b"=cmd()", b"O8", b"1e999"),
    b"\xed\xa0\x80",
)
_MOST_MEMORY = 2 << 30


def main() -> None:
    """Runs the campaigns."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--mutations", type=int, default=300)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", default="")
    args = parser.parse_args()
    names = [name for name in args.only.split(",") if name] or list(READERS)
    for name in names:
        with tempfile.TemporaryDirectory() as folder:
            started = time.process_time()
            counts = attack(READERS[name], pathlib.Path(folder), args.mutations, args.seed)
            seconds = round(time.process_time() - started, 1)
        print(json.dumps({"reader": name, **counts, "CPU seconds": seconds}), flush=True)


def attack(reader: Reader, folder: pathlib.Path, mutations: int, seed: int) -> dict[str, int]:
    """Mutates the files of a reader.

    Returns:
      Counts: `mutations`, of which `equal`, `other values` and `errors for users`.

    Raises:
      AssertionError: an error of another kind, too much memory, or other values where checksums
        should have found the change.
    """
    randomness = random.Random(
        f"{seed} {reader.read.__qualname__} {sorted(reader.errors, key=str)}"
    )
    paths = reader.write(folder)
    whole = {path: path.read_bytes() for path in paths}
    expected = plain(reader.read(folder))
    counts = dict.fromkeys(("mutations", "equal", "other values", "errors for users"), 0)
    before = _peak()
    for number in range(mutations):
        path = paths[number % len(paths)]
        path.write_bytes(mutate(whole[path], randomness))
        counts["mutations"] += 1
        try:
            found = plain(reader.read(folder))
            counts["equal" if found == expected else "other values"] += 1
        except reader.errors:
            counts["errors for users"] += 1
        except Exception as error:
            kept = pathlib.Path(tempfile.mkdtemp()) / path.name
            kept.write_bytes(path.read_bytes())
            message = f"mutation {number} of {path.name}, kept as {kept}: {error!r}"
            raise AssertionError(message) from error
        assert _peak() - before < _MOST_MEMORY, f"mutation {number} of {path.name} takes memory"
        path.write_bytes(whole[path])
    assert not (reader.is_exact and counts["other values"]), counts
    return counts


def mutate(content: bytes, randomness: random.Random) -> bytes:
    """Returns a file with one to three changes, most of them near its start or its end."""
    data = bytearray(content)
    for _ in range(randomness.randint(1, 3)):
        if not data:
            break
        reach = randomness.choice((len(data), min(len(data), 256)))
        at = randomness.randrange(reach)
        at = len(data) - 1 - at if randomness.random() < 0.3 else at
        span = randomness.randint(1, 32)
        kind = randomness.randrange(7)
        if kind == 0:
            data[at] ^= 1 << randomness.randrange(8)
        elif kind == 1:
            data[at] = randomness.randrange(256)
        elif kind == 2:
            del data[at : at + span]
        elif kind == 3:
            data[at:at] = data[at : at + span]
        elif kind == 4:
            data[at : at + span] = randomness.choice(_TOKENS)
        elif kind == 5:
            size = randomness.choice((2, 4, 8))
            number = randomness.choice((0, 1, 2**31, 2 ** (8 * size) - 1, 2 ** (8 * size - 2)))
            order = randomness.choice(("little", "big"))
            data[at : at + size] = (number % 2 ** (8 * size)).to_bytes(size, order)
        else:
            del data[at:]
    return bytes(data)


def _peak() -> int:
    """Bytes of memory that this process has had at once."""
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


if __name__ == "__main__":
    main()
