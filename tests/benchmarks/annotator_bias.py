"""Labels favor the models that proposed them: section 5 of ECCV Caption in a world of known truth.

    python -m tests.benchmarks.annotator_bias --output=OUT

The items are the rendered scenes of crisscrossed_shapes, where it is known which captions are true
of which images. Five models of different strength, the annotators, propose pairs; simulated raters,
who err in 5 % of their answers, answer over HTTP. Each annotator has a twin of the same strength. A
second study asks about the pairs that only the twins propose.

An unbiased benchmark gives an annotator and its twin the same mean mAP@R; a lead of the annotators
is bias. The labels `only_A` are the accepted pairs that A proposed, `five` those of A to E, and
`ten` those of the twins as well, each with the original pairs that nobody rated; `truth` has all
true pairs.

Prints the lead under all labels, with 95 % intervals over queries; writes all labels and results,
and `bias.md` with the bump chart.
"""

import argparse
import concurrent.futures
import json
import pathlib

import numpy as np

import xmodal
from tests.apps.annotate.server import Client, links, serving
from xmodal.api.search.items import open_split
from xmodal.apps.analysis import agree
from xmodal.apps.annotate.answers import decide, find_doubts, read_answers
from xmodal.apps.annotate.labels import aggregate
from xmodal.apps.annotate.match_labels import format_lists, positives_of_queries
from xmodal.apps.annotate.studies import make
from xmodal.apps.annotate.study_file import StudyFile
from xmodal.evals.scores.files import save_scores
from xmodal.evals.scores.sources import ScoreMatrix

STRENGTHS = {"A": 1.6, "B": 1.9, "C": 2.2, "D": 2.5, "E": 2.8}
ERRORS = 0.05
RATERS = 12
DATASET = {
    "dataset": "crisscrossed_shapes", "config": "images", "split": "test", "data_dir": "",
    "manual_dir": "",
}  # fmt: skip


def write_models(folder, split, truth):
    """Scores: the truth, times the strength, and a taste of the model's own."""
    shape, paths = truth.shape, {}
    for number, (name, strength) in enumerate(
        (name + twin, strength) for twin in ("", "_twin") for name, strength in STRENGTHS.items()
    ):
        rng = np.random.default_rng(number)
        taste = rng.normal(size=(shape[0], 8)) @ rng.normal(size=(8, shape[1])) / np.sqrt(8)
        scores = strength * truth + 0.8 * taste + 0.6 * rng.normal(size=shape)
        paths[name] = str(folder / f"{name}.npz")
        ids = np.asarray(split.image_ids), np.asarray(split.caption_ids)
        save_scores(paths[name], ScoreMatrix("", *ids, scores.astype(np.float32)))
    return paths


def answer_all(client, questions, true, seed):
    """Answers until the end; the error of a rater is known."""
    rng = np.random.default_rng(seed)
    while (place := client.place()) != "/end":
        is_true = (questions[place] in true) ^ (rng.random() < ERRORS)
        words = ("yes", "weak_yes") if is_true else ("no", "weak_no")
        status = client.post(place, f"answer={words[int(rng.random() < 0.3)]}")[0].status
        assert status == 303, status


def collect_answers(study, true):
    """Lets raters work until no unit is left; units with two wrong golden answers are rejected."""
    with study.reading() as connection:
        rows = connection.execute("SELECT unit, number, left_id, right_id FROM questions")
        questions = {f"/item/{unit}/{number}": (left, right) for unit, number, left, right in rows}
    doubts, rounds = {None: ""}, 0
    with serving(study) as server, concurrent.futures.ThreadPoolExecutor(RATERS) as pool:
        while doubts:
            rounds += 1
            clients = [Client(server.address).join(link)
                       for link in links(study, server, RATERS).values()]  # fmt: skip
            seeds = [(rounds, number) for number in range(RATERS)]
            some = [questions] * RATERS, [true] * RATERS
            list(pool.map(answer_all, clients, *some, seeds))
            doubts = find_doubts(read_answers(study))
            for (unit, rater), wrong in doubts.items():
                decide(study, unit, rater, accept="; " not in wrong)
    return len(questions), rounds


def map_at_r(path, name, folder, output):
    """Saves an evaluation; returns query -> mAP@R, by direction."""
    evaluation = xmodal.evaluate(
        scores=path, annotations=folder, benchmarks=["eccv"], name=name, bootstrap_samples=100
    )
    evaluation.save(output)
    (result,) = evaluation.results
    return {
        (direction, int(query)): value
        for direction, found in result.directions.items()
        for query, value in zip(found.query_ids, found.values["map@r"], strict=True)
    }


def mean_lead(leads, draws=2000):
    """Mean of the two directions' means over queries, and its interval over queries."""
    keys = list(leads)
    values = np.array([leads[key] for key in keys])
    groups = [np.flatnonzero([key[0] == name for key in keys]) for name in ("i2t", "t2i")]
    rng = np.random.default_rng(0)

    def mean(some):
        return np.mean([values[each].mean() for each in some])

    drawn = [mean([rng.choice(each, len(each)) for each in groups]) for _ in range(draws)]
    return mean(groups), *np.percentile(drawn, [2.5, 97.5])


def run_studies(folder, paths, true, images, captions):
    """The study of the annotators, and that of their twins on the pairs that are left."""
    studies = []
    for name, models in {"five": [*STRENGTHS], "twins": [*paths][len(STRENGTHS) :]}.items():
        options = {
            "study": str(folder / f"{name}.study"), "images": images, "top": 5, "seed": 0,
            "captions": captions, "models": [f"{each}={paths[each]}" for each in models],
            "exclude": [str(each.path) for each in studies], "per_hit": 18, "qualification": 0,
            "pass_share": 0.9, "raters_per_item": None, "lease_minutes": 30.0, "per_rater": None,
            "similarity": None,
        }  # fmt: skip
        print(make("eccv", DATASET | options), flush=True)
        studies.append(StudyFile(options["study"]))
        asked, rounds = collect_answers(studies[-1], true)
        print(f"{asked:,} questions, {RATERS} raters with {ERRORS:.0%} errors, {rounds} round(s)")
    return studies


def write_labels(folder, studies, true):
    """Label sets: of each annotator, of all five, of all ten models, and the truth; their names."""
    sets = {f"only_{name}": [name] for name in STRENGTHS} | {"five": [*STRENGTHS], "ten": None}
    for name, models in sets.items():
        report = aggregate(studies, folder / name, from_models=models)
    print(report, flush=True)
    settings = studies[0].settings
    lists = positives_of_queries(true, settings.image_queries, settings.caption_queries)
    (folder / "truth").mkdir()
    for name, content in format_lists("eccv", lists).items():
        (folder / "truth" / name).write_text(content)
    for kept in (folder / "ten").glob("*.json"):
        if kept.name.startswith(("original", "study")):
            (folder / "truth" / kept.name).write_bytes(kept.read_bytes())
    return ["truth", *sets]


def tabulate_leads(found):
    """Lines of a table; `found`: (labels, model) -> query -> mAP@R."""
    rules = {
        "labels of the annotator alone": "only_{}",
        "labels of all five": "five",
        "labels of all five and their twins": "ten",
        "the truth": "truth",
    }
    lines = ["| mAP@R on | lead of annotators over their twins | 95 % interval |", "|---|--:|--:|"]
    for title, labels in rules.items():
        leads = {
            (direction, name, query): value
            - found[labels.format(name), f"{name}_twin"][direction, query]
            for name in STRENGTHS
            for (direction, query), value in found[labels.format(name), name].items()
        }
        mean, low, high = mean_lead(leads)
        lines.append(f"| {title} | {mean:+.1f} | {low:+.1f} to {high:+.1f} |")
    return lines


def main():
    """Makes the world, its labels and the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", required=True, type=pathlib.Path)
    parser.add_argument("--images", type=int, default=40)
    parser.add_argument("--captions", type=int, default=80)
    args = parser.parse_args()
    args.output.mkdir(parents=True)
    split = open_split(DATASET)
    captions, images = (each.tolist() for each in split.lists["matches"]["t2i"])
    true = set(zip(captions, images, strict=True))
    rows = {int(each): row for row, each in enumerate(split.image_ids)}
    columns = {int(each): column for column, each in enumerate(split.caption_ids)}
    truth = np.zeros((len(rows), len(columns)), bool)
    truth[[rows[image] for image in images], [columns[caption] for caption in captions]] = True
    paths = write_models(args.output, split, truth)

    studies = run_studies(args.output, paths, true, args.images, args.captions)
    found, folders = {}, []
    for labels in write_labels(args.output / "labels", studies, true):
        for name, path in paths.items():
            folders.append(str(args.output / "results" / labels / name))
            place = args.output / "labels" / labels
            found[labels, name] = map_at_r(path, name, place, folders[-1])
    lines = tabulate_leads(found)
    print("\n".join(lines), flush=True)
    text = agree.compare(folders, str(args.output / "agreement"), ["*/mean/map@r"])
    page = [
        "# Labels favor the models that proposed them",
        *__doc__.split("\n\n")[2:4],
        "\n".join(lines),
        "![Ranks under all labels](agreement/bump_chart.png)",
        text.replace("# ", "## "),
    ]
    (args.output / "bias.md").write_text("\n\n".join(page))
    print(json.dumps({"page": str(args.output / "bias.md")}))


if __name__ == "__main__":
    main()
