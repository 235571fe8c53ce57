"""Many raters of one study at once, each as fast as the real server answers.

Every rater opens a question, answers it, and opens the next one, over a connection of their own.
"""

import asyncio
import itertools
import pathlib
import time

import numpy as np

from tests.apps.annotate.server import serving
from tests.apps.annotate.small_studies import CAPTIONS, make_study, pairs
from xmodal.apps.annotate.raters import find_rater, invite


class LoadRater:
    """A rater with a connection that stays open; remembers how long every response took."""

    def __init__(self, address: str, token: str) -> None:
        self._host, self._token, self._cookie = address.removeprefix("http://"), token, ""
        self.waits: list[float] = []
        self.acknowledged: dict[tuple[int, int], float] = {}

    async def work(self, answers: int) -> None:
        """Joins and answers questions."""
        host, port = self._host.split(":")
        self._reader, self._writer = await asyncio.open_connection(host, int(port))
        await self._send("GET", f"/join/{self._token}")
        for number in range(answers):
            place = (await self._send("GET", "/rate"))["location"]
            await self._send("GET", place)
            value = number % 21 / 4
            if (await self._send("POST", place, f"answer={value}"))["status"] == "303":
                _, _, unit, question = place.split("/")
                self.acknowledged[int(unit), int(question)] = value
        self._writer.close()

    async def _send(self, method: str, path: str, body: str = "") -> dict[str, str]:
        """Returns the status and the headers of the response."""
        head = {"Host": self._host, "Origin": f"http://{self._host}", "Cookie": self._cookie}
        head |= {"Content-Length": str(len(body))} if body else {}
        lines = [f"{method} {path} HTTP/1.1", *(f"{key}: {value}" for key, value in head.items())]
        started = time.perf_counter()
        self._writer.write("\r\n".join([*lines, "", body]).encode())
        first, *found = (await self._reader.readuntil(b"\r\n\r\n")).decode().splitlines()[:-1]
        headers = {key.lower(): value for key, _, value in (line.partition(": ") for line in found)}
        await self._reader.readexactly(int(headers.get("content-length", 0)))
        self.waits.append(time.perf_counter() - started)
        self._cookie = headers.get("set-cookie", self._cookie).partition(";")[0]
        return headers | {"status": first.split()[1]}


def measure(folder: pathlib.Path, raters: int, answers: int) -> dict[str, float]:
    """Returns the counts and the waits of a study in a new file of `folder`."""
    ends = itertools.islice(itertools.combinations([each[0] for each in CAPTIONS], 2), answers)
    study = make_study(folder / "load.study", pairs("sts", *ends), raters_per_item=raters)
    tokens = invite(study, raters).values()
    with serving(study) as server:
        people = [LoadRater(server.address, token) for token in tokens]
        started = time.perf_counter()
        asyncio.run(work_together(people, answers))
        seconds = time.perf_counter() - started
    with study.reading() as connection:
        rows = connection.execute("SELECT rater, unit, number, value FROM answers")
        stored = {tuple(row)[:3]: float(row["value"]) for row in rows}
    ids = [find_rater(study, token).id for token in tokens]
    sent = {
        (own, *place): value
        for own, each in zip(ids, people, strict=True)
        for place, value in each.acknowledged.items()
    }
    waits = 1000 * np.concatenate([each.waits for each in people])
    percentiles = np.percentile(waits, [50, 99, 100]).round(1).tolist()
    return {
        "raters": raters,
        "acknowledged": len(sent),
        "stored": len(stored),
        "lost_or_wrong": sum(stored.get(key) != value for key, value in sent.items()),
        "answers_per_second": round(len(sent) / seconds, 1),
        **dict(zip(("median_ms", "p99_ms", "worst_ms"), percentiles, strict=True)),
    }


async def work_together(people: list[LoadRater], answers: int) -> None:
    """Lets all raters answer at once."""
    await asyncio.gather(*(each.work(answers) for each in people))
