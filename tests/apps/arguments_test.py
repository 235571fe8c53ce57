"""Arguments of commands: lists of names, integers, and the split of a dataset."""

import pytest

from xmodal.apps import arguments


@pytest.fixture
def parser():
    parser = arguments.make_parser("draw", "Draws.\n\n    xmodal draw")
    parser.add_argument("--names", type=arguments.name_list)
    parser.add_argument("--count", type=arguments.positive_int)
    parser.add_argument("--seed", type=arguments.natural_int)
    return parser


def test_values(parser):
    args = parser.parse_args(["--names=a,,b c,", "--count=12", "--seed=0"])
    assert (args.names, args.count, args.seed) == (["a", "b c"], 12, 0)
    assert "usage: xmodal draw" in parser.format_help()
    assert "Draws.\n\n    xmodal draw\n" in parser.format_help()


def test_the_split_of_a_dataset(parser):
    arguments.add_dataset(parser, "a dataset", split="train")
    found = arguments.dataset_section(parser.parse_args(["--dataset=cite", "--data_dir=prepared"]))
    assert found == {
        "dataset": "cite",
        "config": "images",
        "split": "train",
        "data_dir": "prepared",
        "manual_dir": "",
    }
