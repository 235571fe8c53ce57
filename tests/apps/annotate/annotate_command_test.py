"""All commands of `python -m xmodal annotate`, and their messages."""

import json
import re
import sys

import numpy as np
import pytest

import xmodal
from tests.apps.annotate.server import Client, links, serving
from xmodal.apps.analysis import votes
from xmodal.apps.annotate import __main__ as command
from xmodal.apps.annotate.assignment_queue import AssignmentQueue, Place
from xmodal.apps.annotate.raters import find_rater, invite
from xmodal.apps.annotate.study_file import StudyFile


@pytest.fixture
def run(monkeypatch, capsys):
    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["annotate", *map(str, arguments)])
        try:
            command.main()
        except SystemExit as ended:
            # The interpreter prints a string passed to sys.exit, and exits with code 1.
            text = ended.code if isinstance(ended.code, str) else ""
            return 1 if text else ended.code, capsys.readouterr().err + text
        return 0, capsys.readouterr().out

    return run


def test_from_models_to_labels(run, few_shapes, tmp_path):
    study = tmp_path / "round.study"
    shapes = ["--dataset=crisscrossed_shapes", f"--data_dir={few_shapes}", f"--study={study}"]
    ids = {"image": range(175, 200), "caption": range(875, 1000)}
    rng = np.random.default_rng(0)
    arrays = {f"{kind}_ids": np.array(each) for kind, each in ids.items()}
    arrays |= {
        f"{kind}_embeddings": rng.normal(size=(len(each), 4)).astype(np.float32)
        for kind, each in ids.items()
    }
    np.savez(tmp_path / "model.npz", **arrays)
    made = ["make", "eccv", *shapes, f"--models={tmp_path}/model.npz", "--images=2", "--captions=2"]
    code, said = run(*made, "--similarity=cosine", "--per_hit=10")
    assert code == 0, said
    assert re.search(r": 2[0-4] questions in 2 units, \d+ pictures, 1 rater\(s\) each; ", said)

    code, said = run("invite", f"--study={study}", "--raters=2", "--url=https://rate.example.org/")
    tokens = re.findall(r"^rater\d  https://rate.example.org/join/(\S{43})$", said, re.MULTILINE)
    assert len(tokens) == 2
    opened = StudyFile(study)
    first = find_rater(opened, tokens[0])
    queue = AssignmentQueue(opened)
    while isinstance(place := queue.next(first), Place):
        queue.save(first, place, "yes")  # the negative golden pairs, too
    review = ["review", f"--study={study}"]
    doubt = r"unit 2 of rater1: caption \d+, image \d+: yes instead of no"
    assert re.fullmatch(doubt, run(*review)[1].splitlines()[1])
    assert run("aggregate", f"--study={study}", f"--output={tmp_path}/none")[0] == 1
    assert run(*review, "--accept=1:rater1") == (0, "unit 1 of rater1: accepted\n")
    assert run(*review, "--reject=2:rater1") == (0, "unit 2 of rater1: rejected\n")
    assert run(*review) == (0, "no units are waiting for review\n")
    code, said = run("aggregate", f"--study={study}", f"--output={tmp_path}/labels")
    assert code == 0
    assert "1 of 2 units have all their raters" in said
    lists = json.loads((tmp_path / "labels" / "eccv_image_to_caption.json").read_text())
    assert len(lists) == 2
    assert re.search(r"^\| model +\| +all \|", said, re.MULTILINE), said

    # A second study asks for the pairs of the other set alone; another model is the same in lists.
    second, lists = tmp_path / "second.study", tmp_path / "lists.json"
    files = {"embeddings": tmp_path / "model.npz", "annotations": tmp_path / "labels"}
    xmodal.evaluate(**files, similarity="cosine", save_rankings=lists, bootstrap_samples=10)
    made[made.index(f"--study={study}")] = f"--study={second}"
    made[made.index(f"--models={tmp_path}/model.npz")] += f",again={lists}"
    options = ("--similarity=cosine", "--per_hit=10", f"--exclude={study}")
    code, said = run(*made, *options)
    assert code == 0, said
    asked = int(re.search(r"; (\d+) pairs of 40 that the models propose; \d+ more are", said)[1])
    assert 8 <= asked <= 10
    later = StudyFile(second)
    queue, rater = AssignmentQueue(later), find_rater(later, *invite(later, 1).values())
    while isinstance(place := queue.next(rater), Place):
        queue.save(rater, place, queue.page(rater, place).question.golden or "no")
    both = f"--study={study},{second}", f"--output={tmp_path}/both", "--from_models=again"
    code, said = run("aggregate", *both, "--rule=all", "--strict")
    assert code == 0, said
    judged = json.loads((tmp_path / "both" / "annotated_caption_to_image.json").read_text())
    assert all(len(items) >= 5 for items in judged.values())
    found = {name: [] for name in ("model", "again")}
    for *pair, name, direction, rank in later.read_proposals():
        found[name].append((*pair, direction, rank))
    assert found["model"] == found["again"]
    assert run("invite", f"--study={study}", "--end=rater2")[0] == 0
    assert find_rater(opened, tokens[1]).state == "ended"


@pytest.mark.slow
def test_captions_with_one_picture_of_both_models_count_as_same(
    run, few_shapes, tmp_path, monkeypatch, capsys
):
    study = tmp_path / "preference.study"
    # Both find image 175 for every second caption; elsewhere, the other one finds 190.
    for name, other in (("ours", 175), ("other", 190)):
        found = {str(caption): [other if caption % 2 else 175] for caption in range(875, 1000)}
        (tmp_path / f"{name}.json").write_text(json.dumps({"t2i": found}))
    code, said = run(
        *("make", "preference", f"--study={study}", "--examples=20", "--raters_per_item=1"),
        *("--dataset=crisscrossed_shapes", f"--data_dir={few_shapes}"),
        f"--models={tmp_path}/ours.json,{tmp_path}/other.json",
    )
    assert code == 0, said
    pattern = r"\nours, other: (\d+) captions with different pictures, (\d+) with the same one"
    asked, same = map(int, re.search(pattern, said).groups())
    assert f": {asked} questions" in said
    assert (asked > 0, same > 0, asked + same) == (True, True, 20)
    assert said.count(f" of {asked} captions (") == 2

    opened = StudyFile(study)
    with serving(opened) as server:
        (link,) = links(opened, server, 1).values()
        client, answers = Client(server.address).join(link), iter(["both_bad"])
        for _ in range(asked):
            place = client.place()
            left = re.search(r"/image/(\d+)", client.get(place)[1])[1]
            better = "left" if left == "175" else "right"
            assert client.post(place, f"answer={next(answers, better)}")[0].status == 303
        assert client.place() == "/end"
    code, said = run("aggregate", f"--study={study}", f"--output={tmp_path}/labels")
    assert code == 0, said
    arguments = ["votes", f"--answers={tmp_path}/labels/votes.csv"]
    monkeypatch.setattr(sys, "argv", arguments)
    votes.main()
    lines = capsys.readouterr().out.splitlines()
    head, _, *table = ([cell.strip() for cell in line.strip("|").split("|")] for line in lines)
    row = dict(zip(head, table[-1], strict=True))
    expected = {"better": asked - 1, "worse": 0, "both_good": 0, "both_bad": 1, "same": same}
    assert {name: row[name] for name in expected} == {
        name: f"{100 * count / 20:.0f}" for name, count in expected.items()
    }
    assert (row["group"], row["examples"], row["no majority"]) == ("all", "20", "0")
