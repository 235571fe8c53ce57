r"""Studies in which people rate pairs, as local web pages.

    python -m xmodal annotate make cxc --study=FILE --dataset=NAME --pairs=PAIRS
    python -m xmodal annotate make eccv --study=FILE --dataset=NAME --models=A.npz,B.json
    python -m xmodal annotate make preference --study=FILE --dataset=NAME --models=A.npz,B.npz
    python -m xmodal annotate invite --study=FILE --raters=5
    python -m xmodal annotate serve --study=FILE
    python -m xmodal annotate review --study=FILE
    python -m xmodal annotate aggregate --study=FILE --output=LABELS

A study is one file. `make` creates its questions: pairs with sliders as in Crisscrossed Captions,
candidates of several models as in ECCV Caption, or a blind comparison of models as in table 6 of
the CMCM paper. `aggregate` writes labels in the released layouts.
"""

import argparse
import sqlite3
import sys

from xmodal.apps.annotate.answers import decide, find_doubts, read_answers
from xmodal.apps.annotate.raters import end_rater, invite
from xmodal.apps.annotate.study_file import StudyFile
from xmodal.apps.arguments import (
    add_dataset,
    add_server,
    add_texts,
    make_parser,
    name_list,
    positive_int,
    require_extra,
)
from xmodal.core import console

_ADDRESS = "http://127.0.0.1:8000"


@console.readable_errors(sqlite3.OperationalError)
def main() -> None:
    """Runs the command that the arguments name."""
    args = _parse()
    args.run(args)


def _make(args: argparse.Namespace) -> None:
    # Imports JAX, which no other command needs.
    from xmodal.apps.annotate.studies import make

    print(make(args.kind, vars(args)))


def _invite(args: argparse.Namespace) -> None:
    study = StudyFile(args.study)
    if args.end:
        end_rater(study, args.end)
        print(
            f"{args.end} will receive no more questions; an unfinished unit goes to another rater"
        )
        return
    for name, token in invite(study, args.raters).items():
        print(f"{name}  {args.url.rstrip('/')}/join/{token}")
    print("Links are not stored: give each to one person now.", file=sys.stderr)


def _serve(args: argparse.Namespace) -> None:
    require_extra("annotate", "starlette", "uvicorn")
    from xmodal.api import web_server
    from xmodal.apps.annotate.pages import make_app

    app = make_app(StudyFile(args.study), args.host, args.url)
    web_server.serve(app, args.study, args.host, args.port, args.url)


def _review(args: argparse.Namespace) -> None:
    study = StudyFile(args.study)
    for decision in ("accept", "reject"):
        if given := getattr(args, decision):
            unit, rater = given
            decide(study, unit, rater, accept=decision == "accept")
            print(f"unit {unit} of {rater}: {decision}ed")
            return
    for (unit, rater), wrong in (doubts := find_doubts(read_answers(study))).items():
        print(f"unit {unit} of {rater}: {wrong}")
    if not doubts:
        print("no units are waiting for review")


def _aggregate(args: argparse.Namespace) -> None:
    require_extra("annotate", "krippendorff")
    from xmodal.apps.annotate.labels import aggregate

    names = "name", "from_models", "add", "without", "human_only", "rule", "strict"
    studies = [StudyFile(path) for path in name_list(args.study)]
    print(aggregate(studies, args.output, **{name: getattr(args, name) for name in names}))


def _parse() -> argparse.Namespace:
    parser = make_parser("annotate", __doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    make = commands.add_parser("make", help="creates the questions of a new study")
    _add_kinds(make.add_subparsers(dest="kind", required=True))
    inviting = commands.add_parser("invite", help="makes links for raters")
    choice = inviting.add_mutually_exclusive_group(required=True)
    choice.add_argument("--raters", type=positive_int, help="number of new links")
    choice.add_argument("--end", metavar="NAME", help="a rater who will receive no more questions")
    inviting.add_argument("--url", default=_ADDRESS, help="address of the server in browsers")
    serve = commands.add_parser("serve", help="shows a study to its raters")
    add_server(serve)
    review = commands.add_parser("review", help="lists units with wrong golden answers, or decides")
    choice = review.add_mutually_exclusive_group()
    for decision in ("accept", "reject"):
        choice.add_argument(f"--{decision}", type=_unit, metavar="UNIT:RATER", help="a unit")
    aggregate = commands.add_parser("aggregate", help="writes labels and the raters' agreement")
    aggregate.add_argument("--output", required=True, help="folder")
    add_texts(
        aggregate,
        name="name of these labels in results, such as mine@2026-11; default: that of the folder",
        add="eccv: folder of annotations whose positives are added",
        without="eccv: file of caption ids to leave out, one per line",
    )
    for name, text in (
        ("human_only", "eccv: without original pairs that no rater saw"),
        ("strict", 'eccv: "yes, most of it" is a no'),
    ):
        aggregate.add_argument(f"--{name}", action="store_true", help=text)
    aggregate.add_argument(
        "--from_models", type=name_list, help="eccv: labels as if only these had proposed pairs"
    )
    aggregate.add_argument(
        "--rule", default="majority", choices=("majority", "all"),
        help="eccv: the raters of a pair who have to say yes",
    )  # fmt: skip
    runs = {inviting: _invite, serve: _serve, review: _review, aggregate: _aggregate}
    for command, run in runs.items():
        command.add_argument("--study", required=True, help="file of the study; aggregate: A,B,...")
        command.set_defaults(run=run)
    return parser.parse_args()


def _add_kinds(kinds: argparse._SubParsersAction) -> None:
    cxc = kinds.add_parser("cxc", help="pairs with sliders from 0 to 5")
    eccv = kinds.add_parser("eccv", help="candidates of several models")
    preference = kinds.add_parser("preference", help="which models find better pictures")
    for each in (cxc, eccv, preference):
        each.add_argument("--study", required=True, help="the new file")
        add_dataset(each, "a prepared dataset with pictures", required=True)
        each.add_argument("--lease_minutes", type=float, default=30.0, help="to finish a unit")
        each.add_argument("--raters_per_item", type=positive_int, help="raters of each question")
        each.add_argument("--per_rater", type=positive_int, help="most units of one rater")
        each.add_argument("--seed", type=int, default=0, help="seed of all draws")
        each.set_defaults(run=_make)
    cxc.add_argument("--pairs", required=True, help="folder of {sts,sis,sits}_SPLIT.csv")
    cxc.add_argument("--ratings", type=name_list, help="some of sts,sis,sits; default: all")
    cxc.add_argument("--numbers", action="store_true", help="show 0 to 5, and take them as keys")
    for each in (eccv, preference):
        each.add_argument("--models", type=name_list, required=True,
                          help="[NAME=]FILE,... of embeddings, scores, rankings")  # fmt: skip
        add_texts(each, similarity="for embeddings whose file names none")
    for name, default, text in (
        ("images", -1, "queries to draw; -1 for all"),
        ("captions", -1, "queries to draw; -1 for all"),
        ("top", 5, "candidates per model and query"),
        ("per_hit", 18, "pairs besides two golden ones"),
        ("qualification", 0, "golden pairs shown first"),
    ):
        eccv.add_argument(f"--{name}", type=int, default=default, help=text)
    eccv.add_argument("--exclude", type=name_list,
                      help="studies, answers.csv or labels: their pairs are not asked")  # fmt: skip
    eccv.add_argument("--pass_share", type=float, default=0.9, help="share of these to get right")
    preference.add_argument("--examples", type=positive_int, default=100, help="captions to draw")
    add_texts(preference, labels="column of 0 and 1 that groups the captions")


def _unit(text: str) -> tuple[int, str]:
    unit, _, rater = text.partition(":")
    if not unit.isdecimal() or not rater:
        raise argparse.ArgumentTypeError(f"{text!r} is not like 12:rater3")
    return int(unit), rater


if __name__ == "__main__":
    console.run(main)
