"""All commands: `xmodal COMMAND` is `python -m xmodal COMMAND`, in an installed wheel as well."""

import argparse
import os
import runpy
import sys
from typing import Any

# The module that a command runs, and what `xmodal --help` says of it.
COMMANDS = {
    "train": ("xmodal.main", "train a config, or check it with --dry_run"),
    "evaluate": ("xmodal.eval_main", "evaluate a run, towers, embeddings or files of scores"),
    "prepare": ("data_prep.build", "build a dataset"),
    "validate": ("data_prep.validate", "check a prepared dataset again"),
    "concepts": ("data_prep.concepts", "write the concepts that captions name, for CVSE"),
    "merge_cxc": ("data_prep.cxc.merge", "write Karpathy's JSON with the scores of CxC"),
    "convert": ("xmodal.apps.convert", "convert a published checkpoint"),
    "export": ("xmodal.apps.export", "export a model to bundles and libraries"),
    "search": ("xmodal.apps.search", "build an index and find images and texts in it"),
    "classify": ("xmodal.apps.classify", "sort pictures into classes by their names"),
    "reproduce": ("xmodal.apps.reproduction.reproduce", "check published and measured numbers"),
    "mine": ("xmodal.apps.mine", "mine hard negatives with a trained model, for AOQ"),
    "sweep": ("xmodal.apps.sweep", "search for hyperparameters"),
    "annotate": ("xmodal.apps.annotate", "collect labels of image-text pairs from people"),
    "compare": ("xmodal.apps.explore.compare", "compare the results of models, in pairs"),
    "leaderboard": (
        "xmodal.apps.explore.leaderboard",
        "make a page and tables of the results of models",
    ),
    "agree": ("xmodal.apps.analysis.agree", "compare metrics by how they order models"),
    "bradley_terry": ("xmodal.apps.analysis.bradley_terry", "rank models by pairwise choices"),
    "caption_relations": (
        "xmodal.apps.analysis.caption_relations",
        "train a text-only baseline for coherence relations",
    ),
    "describe": ("xmodal.apps.analysis.describe", "describe the ratings of CxC"),
    "diversity": ("xmodal.apps.analysis.diversity", "compare what models retrieve"),
    "label_quality": ("xmodal.apps.analysis.label_quality", "compare labels with other labels"),
    "sample_pairs": ("xmodal.apps.analysis.sample_pairs", "draw pairs of items to be rated"),
    "score_gaps": ("xmodal.apps.analysis.score_gaps", "plot gaps between scores by rank"),
    "votes": ("xmodal.apps.analysis.votes", "compute labels from the votes of raters"),
    "word2vec": ("xmodal.apps.analysis.word2vec", "train word vectors on a dataset's captions"),
}


def main() -> None:
    """Runs the command that the first argument names."""
    arguments = sys.argv[1:]
    if "_ARGCOMPLETE" in os.environ:
        arguments = _complete()
    if not arguments or arguments[0] in ("-h", "--help"):
        print(_usage())
        return
    command, *rest = arguments
    if command not in COMMANDS:
        sys.exit(f"Error: {command!r} is not a command.\n\n{_usage()}")
    # As with `python -m`, configs and datasets in the working directory can be imported.
    sys.path.insert(0, "")
    sys.argv[1:] = rest
    runpy.run_module(COMMANDS[command][0], run_name="__main__", alter_sys=True)


def _complete() -> list[str]:
    """Completes a line of a shell by argcomplete, which ends the process.

    For flags of a command, it returns the command, which completes the line where it would parse
    its own.
    """
    import argcomplete
    from absl import app
    from absl.flags import argparse_flags

    line = os.environ["COMP_LINE"][: int(os.environ["COMP_POINT"])]
    before = line.split()[1:] if line[-1:].isspace() else line.split()[1:-1]
    if not before or before[0] not in COMMANDS:
        parser = argparse.ArgumentParser()
        parser.add_argument("command", choices=COMMANDS)
        argcomplete.autocomplete(parser)
    parse = argparse.ArgumentParser.parse_known_args

    def complete(parser: argparse.ArgumentParser, *_: Any) -> Any:
        argparse.ArgumentParser.parse_known_args = parse  # type: ignore[method-assign]
        argcomplete.autocomplete(parser)

    argparse.ArgumentParser.parse_known_args = complete  # type: ignore[assignment, method-assign]
    app.run = lambda *_, **__: complete(argparse_flags.ArgumentParser())
    os.environ["_ARGCOMPLETE"] = "2"  # The line has one more word before the flags.
    return before[:1]


def _usage() -> str:
    width = max(map(len, COMMANDS))
    rows = (f"  {name:{width}}  {text}" for name, (_, text) in COMMANDS.items())
    return "\n".join(
        ["usage: xmodal COMMAND [FLAGS]; `xmodal COMMAND --help` lists its flags.", "", *rows]
        + ["", 'For completion in bash or zsh: eval "$(register-python-argcomplete xmodal)"']
    )


if __name__ == "__main__":
    main()
