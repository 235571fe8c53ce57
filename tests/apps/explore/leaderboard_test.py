"""The leaderboard of several models: ranks, tables, and the page in a browser."""

import csv
import dataclasses
import io
import json
import pathlib
import sys

import pytest

from tests.apps.explore.compare_test import save
from tests.browser import check_accessibility, check_layout, open_page
from tests.evals.evaluators.random_vectors import (
    MODALITIES,
    cosine,
    make_source,
    make_split,
    options_of,
    vector_of,
)
from tests.evals.reports.examples_test import WithPictures, make_picture
from xmodal.apps.explore import leaderboard as leaderboard_lib
from xmodal.apps.explore.compare import Comparison
from xmodal.apps.explore.leaderboard import Leaderboard
from xmodal.evals import evaluate_source, make_evaluator

TAG = "shapes_own/i2t/recall@1"
NAME = "shapes own, image to text, R@1"


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    """Three models with results by query."""
    root = tmp_path_factory.mktemp("stored")
    folders = {name: str(root / name) for name in ("first", "second", "third")}
    for seed, folder in enumerate(folders.values()):
        save(folder, seed)
    return folders


def test_ranks_are_intervals_of_separable_places(tmp_path):
    values = {"a": (50, 48, 52), "b": (51, 49, 53), "c": (40, 39, 41), "d": (30, 20, 45)}
    for name, (value, low, high) in values.items():
        (tmp_path / name).mkdir()
        numbers = {TAG: value, f"{TAG}_low": low, f"{TAG}_high": high}
        (tmp_path / name / "metrics.json").write_text(json.dumps(numbers))
    comparison = Comparison({name: tmp_path / name for name in values})
    # a and b overlap; c is below both; d overlaps only with c.
    assert comparison.rank_limits(TAG) == {"a": (1, 2), "b": (1, 2), "c": (3, 4), "d": (3, 4)}


def test_the_command_writes_tables_and_a_page(stored, tmp_path, monkeypatch, capsys):
    published = tmp_path / "paper.csv"
    published.write_text(f"model,metric,value\nPaper & Co,{TAG},61.5\nOther,sts/pearson,70\n")
    arguments = [
        *(f"{name}={folder}" for name, folder in stored.items()),
        f"--published={published}",
        "--metrics=*/i2t/recall@*",
        f"--output={tmp_path}/out",
    ]
    monkeypatch.setattr(sys, "argv", ["leaderboard", *arguments])
    leaderboard_lib.main()
    printed = capsys.readouterr().out
    assert "4 models x 3 metrics" in printed
    assert "Models without any of these metrics, see --metrics: Other" in printed
    csv_text, text, tex, page = (
        (tmp_path / f"out/leaderboard.{end}").read_text() for end in ("csv", "md", "tex", "html")
    )
    rows = {(row["model"], row["metric"]): row for row in csv.DictReader(io.StringIO(csv_text))}
    numbers = json.loads(pathlib.Path(stored["second"], "metrics.json").read_text())
    found = [float(rows["second", TAG][key]) for key in ("value", "low")]
    assert found == [numbers[TAG], numbers[f"{TAG}_low"]]
    quoted = rows["Paper & Co", TAG]
    assert [quoted[k] for k in ("value", "low", "best_rank", "published")] == ["61.5", "", "", "1"]
    assert f"{numbers[TAG]:.2f} [{numbers[f'{TAG}_low']:.2f}, " in text
    assert "| Paper & Co (published) " in text
    assert f"| {NAME} | " in text
    assert r"Paper \& Co (published)" in tex
    assert "Paper &amp; Co (published)" in page


def test_a_query_shows_what_each_model_found(tmp_path):
    plain = make_split(9, captions=2)
    fields = {each.name: getattr(plain, each.name) for each in dataclasses.fields(plain)}
    split = WithPictures(**fields)
    evaluator = make_evaluator(
        "x", options_of(type="benchmarks", bootstrap_samples=20), split, MODALITIES
    )
    sources = {name: make_source(split, seed) for seed, name in enumerate("ab")}
    for name, source in sources.items():
        evaluation = evaluate_source(evaluator, source, name=name, examples=1)
        evaluation.save(tmp_path / name)
    page = Leaderboard(Comparison({name: tmp_path / name for name in sources}), {}).page()
    assert [group.title for group in page.groups] == [
        "shapes own, image to text",
        "shapes own, text to image",
    ]
    section = page.groups[1].sections[0]
    caption = int(section.title.removeprefix("Caption "))
    for row, (name, source) in zip(section.rows, sources.items(), strict=True):
        scores = {
            int(image): cosine(
                vector_of(source, "text", caption), vector_of(source, "image", image)
            )
            for image in split.image_ids
        }
        best = sorted(scores, key=scores.__getitem__, reverse=True)[:5]
        assert [item.alt.split(":")[0] for item in row.items] == [f"image {x}" for x in best]
        assert row.items[0].picture == make_picture(best[0])
        own = split.caption_image_ids[list(split.caption_ids).index(caption)]
        rank = 1 + sum(scores[x] > scores[int(own)] for x in scores)
        assert row.title == f"{name}: rank {rank} of 9"
        assert [bool(item.mark) for item in row.items] == [x == own for x in best]
    # A model without examples is left out.
    evaluate_source(evaluator, source, name="b").save(tmp_path / "b")
    page = Leaderboard(Comparison({name: tmp_path / name for name in sources}), {}).page()
    assert [len(each.rows) for group in page.groups for each in group.sections] == [1] * 10


@pytest.mark.slow
def test_the_page_sorts_and_filters(chromium, stored, tmp_path):
    leaderboard = Leaderboard(Comparison(stored), {"paper": {TAG: 61.5}}, ["*/recall@*"])
    path = tmp_path / "leaderboard.html"
    path.write_text(leaderboard.page().to_html())
    with open_page(chromium, path, size="desktop", scheme="dark") as page:
        check_layout(page)
        check_accessibility(page)
        # A cross of two intervals for every model of both metrics, between round ticks.
        chosen = [page.locator(f"#{axis} option:checked").inner_text() for axis in "xy"]
        assert chosen == [NAME, "shapes own, text to image, R@1"]
        assert page.locator("#scatter .interval").count() == 2 * page.locator("circle").count() == 6
        ticks = [float(each) for each in page.locator("#scatter .tick").all_text_contents()]
        assert all(each % 5 == 0 for each in ticks)
        low, high = leaderboard.rows["first"][0].interval
        cross = page.locator("#scatter .interval").first
        left, right = (float(cross.get_attribute(end)) for end in ("x1", "x2"))
        unit = (right - left) / (high - low)
        across = [
            float(x.get_attribute("x")) for x in page.locator(".tick[text-anchor=middle]").all()
        ]
        assert (across[1] - across[0]) / (ticks[1] - ticks[0]) == pytest.approx(unit)
        moved = page.evaluate("""() => {  // Names of points that lie close together.
            const made = [100, 96].map((y) => element("text", { x: 90, y }, "name"));
            find("scatter").append(...made);
            separate([...made]);
            return made.map((each) => Number(each.getAttribute("y")));
        }""")
        assert moved[0] > moved[1] == 96
        page.locator("#x").select_option("3")
        assert page.locator("#scatter").get_attribute("aria-label").startswith("3 models by ")
    with open_page(chromium, path, size="phone") as page:
        check_layout(page)
        check_accessibility(page)
        shown = "[...document.querySelectorAll('#leaderboard tbody tr:not([hidden]) th')]"
        names = f"{shown}.map(e => e.innerText)"
        head = page.get_by_role("button", name=NAME, exact=True)
        head.focus()
        page.keyboard.press("Enter")  # The highest first.
        values = {
            name: row[[*leaderboard.tags].index(TAG)].value
            for name, row in leaderboard.rows.items()
        }
        order = [name.removesuffix(" (published)") for name in page.evaluate(names)]
        assert [values[name] for name in order] == sorted(values.values(), reverse=True)
        assert order[0] == "paper"
        page.keyboard.press("Enter")
        assert page.evaluate(names)[-1] == "paper (published)"
        page.get_by_label("Published rows").uncheck()
        page.get_by_role("searchbox", name="Models").fill("ir")
        assert set(page.evaluate(names)) == {"first", "third"}
        assert page.locator("#shown").inner_text() == "2 of 4 rows"
        page.get_by_role("searchbox", name="Metrics").fill("t2i/recall@5")
        assert page.locator("#leaderboard thead th:not([hidden])").count() == 2


def test_models_with_several_seeds(tmp_path, monkeypatch):
    tag = "shapes_own/i2t/recall@10"
    for name, seeds in (("a", (0, 1)), ("b", (2, 3))):
        for seed in seeds:
            save(tmp_path / name / f"seed_{seed}", seed)
    folders = [str(tmp_path / name) for name in ("a", "b")]
    arguments = ["leaderboard", *folders, f"--metrics={tag}", f"--output={tmp_path}/out"]
    monkeypatch.setattr(sys, "argv", arguments)
    leaderboard_lib.main()
    first, second = (
        json.loads((tmp_path / f"a/seed_{n}/metrics.json").read_text())[tag] for n in (0, 1)
    )
    text = (tmp_path / "out/leaderboard.md").read_text()
    spread = abs(first - second) / 2**0.5
    assert f"{(first + second) / 2:.2f} ± {spread:.2f} |" in text
    rows = csv.DictReader(io.StringIO((tmp_path / "out/leaderboard.csv").read_text()))
    half = 12.706 * spread / 2**0.5
    assert float(next(rows)["high"]) == pytest.approx((first + second) / 2 + half, rel=1e-3)
    assert {"leaderboard.svg", "leaderboard.pdf"} <= {x.name for x in (tmp_path / "out").iterdir()}
